"""The last lines of the log of an attempt, for people who do not see its host."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby

from tidegate.daemon.spark.process import tail
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner.log_reason import JVM_FRAME
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.text import counted
from tidegate.schemas.wire.event import MAX_LOG_TAIL, storable

LINES = 20


def log_excerpt(spool: Spool, host: str, redact: Callable[[str], str] = str) -> LogExcerpt:
    """Without lines where the task has removed or replaced its log. Secrets are replaced before a cut leaves a part of one."""
    text = ""
    with suppress(OSError, DamagedError):
        text = tail(spool.log, 0)
    return LogExcerpt(host=host, path=str(spool.log), tail=storable(last_lines(redact(text))))


def last_lines(text: str) -> str:
    """The last `LINES` lines that are not empty, cut at their beginning to `MAX_LOG_TAIL` characters.

    Of the frames of a JVM the first is kept, and the number of the others: they would leave no room for what the program says.
    """
    lines = list(_folded(line.rstrip() for line in text.splitlines() if line.strip()))
    return "\n".join(lines[-LINES:])[-MAX_LOG_TAIL:]


def _folded(lines: Iterable[str]) -> Iterator[str]:
    for is_frame, group in groupby(lines, lambda line: bool(JVM_FRAME.match(line))):
        if not is_frame:
            yield from group
            continue
        first, *others = group
        yield first
        if others:
            yield f"\t… {counted(len(others), 'frame', 'frames')} of the JVM more"
