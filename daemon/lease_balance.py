"""Who has how much of the work: every group of duties is dealt out among the daemons, as cards are."""

from collections.abc import Mapping, Sequence

import msgspec

from tidegate.schemas.queries.leases import Group, Lease, Place


class Share(msgspec.Struct, frozen=True):
    """What to give up and how many more to ask for."""

    surplus: tuple[Lease, ...]
    wanted: Mapping[Group, int]


def share(owned: Sequence[Lease], counts: Mapping[Group, int], place: Place) -> Share:
    """Nobody has more than one duty more than another, neither of a group nor in all, where all daemons see the same `counts`.

    `counts` has the groups in the same order for everybody: who is dealt one more of a group goes on where the last one ended.
    """
    surplus: list[Lease] = []
    wanted: dict[Group, int] = {}
    dealt = 0
    for group, count in counts.items():
        mine = sorted((lease for lease in owned if lease.group == group and not lease.halted), key=lambda lease: lease.key)
        due = count // place.of + ((place.number - dealt) % place.of < count % place.of)
        dealt += count
        surplus += mine[due:]
        wanted[group] = due - len(mine)
    return Share(tuple(surplus), wanted)
