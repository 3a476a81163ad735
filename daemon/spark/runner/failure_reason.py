"""The reason of a failure in one sentence for the author of the task, from an exception or from the log of a program."""

import re
from itertools import zip_longest
from pathlib import Path
from traceback import walk_tb
from types import TracebackType

from tidegate.schemas.error import FATAL, TidegateError

MAX_LENGTH = 1000

_TRACEBACK = "Traceback (most recent call last):\n"
_RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Za-z_]\w*)(: .*)?$")
_IN_JVM = re.compile(r"^: (?:[\w.$]+\.)?(\w+)(: .*)?$")
_JVM_RAISED = re.compile(r'^Exception in thread "[^"]*" (?:[\w.$]+\.)?(\w+)(: .*)?$', re.MULTILINE)
_JVM_FRAME = re.compile(r"^\s+(at [\w.$/<>-]+\(|\.\.\. \d+ (more|common frames))")
_SPARK_LOG = re.compile(r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ ")
_POSITION = re.compile(r"[;(]? ?\(?line (\d+),? pos(ition)? (\d+)\)?")
_SQLSTATE = re.compile(r" ?SQLSTATE: \w{5}")


class TaskError(TidegateError):
    """The task cannot be started or has failed; the message is its outcome's reason."""

    def __init__(self, reason: str, exit_code: int | None = None) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


def from_exception(error: BaseException, folder: Path) -> str:
    """`ValueError: no rows (join.py, line 12)`: with the innermost line below the DAG folder, if any."""
    name, text = type(error).__name__, message_of(error)
    if type(error).__module__.startswith("pyspark."):
        text = from_spark(text)
    where = _where(error.__traceback__, folder)
    return _one_line(f"{name}: {text}" if text else name) + (f" ({where})" if where else "")


def message_of(error: BaseException) -> str:
    """What an exception says, as valid Unicode. Empty if it cannot be shown: its class may be one of the task."""
    try:
        return str(error).encode(errors="replace").decode()
    except FATAL:
        raise
    except Exception:  # noqa: BLE001 - the task may raise anything here
        return ""


def from_spark(text: str) -> str:
    """Spark's error class, its first sentence and the position in the statement."""
    text = text.partition("JVM stacktrace:")[0]
    if raised := last_raised(text):
        return raised
    first = next((line for line in text.splitlines() if line.strip()), "")
    position = _POSITION.search(text)
    message = _SQLSTATE.sub("", _POSITION.sub("", first)).rstrip(" .;")
    return message if position is None else f"{message} (line {position[1]}, position {_from_one(position)})"


def from_log(tail: str) -> str:
    """The exception that ended the program, else the last line of its output."""
    if raised := last_raised(tail):
        return _one_line(raised)
    if jvm := list(_JVM_RAISED.finditer(tail)):
        return _one_line(jvm[-1][1] + (jvm[-1][2] or ""))
    lines = [line for line in tail.splitlines() if line.strip() and not _SPARK_LOG.match(line) and not _JVM_FRAME.match(line)]
    return _one_line(lines[-1]) if lines else ""


def last_raised(text: str) -> str:
    """The exception of the last Python traceback in a text; empty without one."""
    _, found, after = text.rpartition(_TRACEBACK)
    lines = [line for line in after.splitlines() if line.strip()] if found else []
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        if not line[0].isspace():
            raised = _RAISED.match(line)
            message = raised[1] + (raised[2] or "") if raised else line
            return _with_following(message.rstrip(), following)
    return ""


def _with_following(message: str, following: str) -> str:
    """The line of an exception, with the next one where that goes on: after an empty line, or with the exception of the JVM."""
    if message.endswith(":"):
        return f"{message} {following}"
    if raised := _IN_JVM.match(following):
        return f"{message} {raised[1]}{raised[2] or ''}"
    return message


def _where(trace: TracebackType | None, folder: Path) -> str:
    where = ""
    for frame, line in walk_tb(trace):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(folder):
            where = f"{path.relative_to(folder)}, line {line}"
    return where


def _from_one(position: re.Match[str]) -> int:
    """Spark counts `pos` from 0 and `position` from 1."""
    return int(position[3]) + (0 if position[2] else 1)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LENGTH else line[: MAX_LENGTH - 1] + "…"
