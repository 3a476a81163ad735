"""What the journal says of the executions of attempts."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tests.storms.runners.pipelines import BEGIN, END


class Execution(msgspec.Struct):
    """All processes of one attempt. Times are in seconds since 1970."""

    first: float = float("inf")
    last: float = float("-inf")
    begun: int = 0
    ended: int = 0


def read(journal: Path) -> Mapping[str, Execution]:
    """By the stamp of the attempt. Lines are appended whole."""
    found: dict[str, Execution] = defaultdict(Execution)
    for line in journal.read_text().splitlines() if journal.exists() else ():
        stamp, at, what = line.split()
        execution = found[stamp]
        execution.first = min(execution.first, float(at))
        execution.last = max(execution.last, float(at))
        execution.begun += what == BEGIN
        execution.ended += what == END
    return found
