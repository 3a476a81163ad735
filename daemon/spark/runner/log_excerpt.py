"""The last lines of the log of an attempt, for people who do not see its host."""

from collections.abc import Callable
from contextlib import suppress

from tidegate.daemon.spark.process import tail
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.wire.event import MAX_LOG_TAIL, storable

LINES = 20


def log_excerpt(spool: Spool, host: str, redact: Callable[[str], str] = str) -> LogExcerpt:
    """Without lines where the task has removed or replaced its log. Secrets are replaced before a cut leaves a part of one."""
    text = ""
    with suppress(OSError, DamagedError):
        text = tail(spool.log, 0)
    return LogExcerpt(host=host, path=str(spool.log), tail=storable(last_lines(redact(text))))


def last_lines(text: str) -> str:
    """The last `LINES` lines that are not empty, cut at their beginning to `MAX_LOG_TAIL` characters."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-LINES:])[-MAX_LOG_TAIL:]
