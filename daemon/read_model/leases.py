"""The leases of a daemon in words."""

import re
from collections import defaultdict
from collections.abc import Sequence

from tidegate.schemas.queries.system_pages import OwnedLease

_NUMBER = re.compile("0|[1-9][0-9]{0,8}")


def leases_text(owns: Sequence[OwnedLease]) -> str:
    """`clock 0-15; outbox 0-15; tidegate.dataset-updated 0, 3`. A key without a number, of another program, stands as it is."""
    groups: dict[str, list[str]] = defaultdict(list)
    for kind, key in owns:
        topic, _, number = key.rpartition("/")
        groups[topic or kind].append(number)
    return "; ".join(f"{name} {_numbers(found)}" for name, found in sorted(groups.items()))


def _numbers(texts: Sequence[str]) -> str:
    """Numbers as ranges, then the other texts."""
    ranges: list[list[int]] = []
    for number in sorted(int(text) for text in texts if _NUMBER.fullmatch(text)):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    others = sorted(text for text in texts if not _NUMBER.fullmatch(text))
    return ", ".join([*("-".join(map(str, range_)) for range_ in ranges), *others])
