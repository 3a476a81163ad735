"""The share of a daemon in each group of leases: leases are dealt round-robin among the daemons."""

from collections.abc import Mapping, Sequence

import msgspec

from tidegate.schemas.queries.leases import DaemonRank, Group, Lease


class Share(msgspec.Struct, frozen=True):
    """The leases to release, and how many more to claim per group."""

    surplus: tuple[Lease, ...]
    wanted: Mapping[Group, int]


def share(owned: Sequence[Lease], counts: Mapping[Group, int], ranks: Mapping[Group, DaemonRank]) -> Share:
    """The number of leases differs by at most one between daemons, per group and in total, if all read the same `counts`.

    `counts` has the groups in the same order for all daemons. Dealing continues from one group to the next. The daemon shares the
    groups in which it has a rank.
    """
    surplus: list[Lease] = []
    wanted: dict[Group, int] = {}
    dealt = 0
    for group, count in counts.items():
        mine = sorted((lease for lease in owned if lease.group == group and not lease.halted), key=lambda lease: lease.key)
        due = _due(count, dealt, ranks[group]) if group in ranks else 0
        dealt += count
        surplus += mine[due:]
        wanted[group] = due - len(mine)
    return Share(tuple(surplus), wanted)


def _due(count: int, dealt: int, rank: DaemonRank) -> int:
    """How many of `count` leases a daemon gets after `dealt` others."""
    return count // rank.of + ((rank.number - dealt) % rank.of < count % rank.of)
