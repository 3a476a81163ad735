"""`left.json` of a spool: why the work of a killed attempt may go on at its cluster, until that confirms its end."""

from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from tidegate.daemon.spark import whole_file
from tidegate.daemon.spark.regular_file import DamagedError, read_regular
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.time_range import Moment

NAME, UNBEGUN = "left.json", "unbegun"
MAX_BYTES = 1 << 14


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """Since when a cluster has not confirmed the end of the attempt, and why."""

    since: Moment
    problem: str


def leave(spool: Spool, problem: str) -> datetime:
    """The end is not confirmed for this reason. Returns the time since when that is so. Raises OSError."""
    before = _read(spool)
    left = Left(since=before.since if before else datetime.now(UTC), problem=problem)
    whole_file.replace(spool.path / NAME, msgspec.json.encode(left))
    return left.since


def problem_of(spool: Spool) -> str:
    """Why the end is not confirmed; empty once the attempt has an outcome."""
    left = None if spool.has_outcome() else _read(spool)
    return left.problem if left else ""


def nothing_began(spool: Spool) -> None:
    """The task has ended before it had anything at its cluster. Not told where the file cannot be written."""
    with suppress(OSError):
        (spool.path / UNBEGUN).touch()


def has_begun(spool: Spool) -> bool:
    """Whether the task may have something at its cluster."""
    return not (spool.path / UNBEGUN).exists()


def _read(spool: Spool) -> Left | None:
    """None without such a file, or for a damaged one: a task can write here."""
    with suppress(DamagedError, OSError, ValueError, RecursionError):
        return msgspec.json.decode(read_regular(spool.path / NAME, MAX_BYTES), type=Left)
    return None
