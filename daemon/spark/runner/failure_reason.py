"""The reason of a failure in one sentence for the author of the task, from an exception."""

import re
from pathlib import Path
from textwrap import shorten
from traceback import walk_tb
from types import TracebackType

from tidegate.daemon.spark.runner.log_reason import last_raised
from tidegate.schemas.error import FATAL, TidegateError

MAX_LENGTH, MAX_LINE = 1000, 120

NO_CLASS = "SparkConnectGrpcException"
"""The exception of a Connect client for what is no error of Spark: of the connection, the login, or the server itself."""

_POSITION = re.compile(r"[;(]? ?\(?line (\d+),? pos(ition)? (\d+)\)?")
_GRPC_STATUS = re.compile(r"^\s*status = StatusCode\.(\w+)$", re.MULTILINE)
_GRPC_DETAILS = re.compile(r'^\s*details = "(.*)"$', re.MULTILINE)
_MARKED = re.compile(r"^(.+)\n-*\^\^\^", re.MULTILINE)
_SQLSTATE = re.compile(r" ?SQLSTATE: \w{5}")


class TaskError(TidegateError):
    """The task cannot be started or has failed; the message is its outcome's reason."""

    def __init__(self, reason: str, exit_code: int | None = None) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


def from_exception(error: BaseException, folder: Path, server: str = "") -> str:
    """`ValueError: no rows (join.py, line 12)`: with the innermost line below the DAG folder, if any.

    An error of gRPC names the `server`.
    """
    name, text = type(error).__name__, message_of(error)
    if type(error).__module__.startswith(("pyspark.", "grpc.")):
        is_of_grpc, text = bool(of_grpc(text)) or name == NO_CLASS, from_spark(text)
        text = f"{text}; the server is {server}" if is_of_grpc and server else text
    where = _where(error.__traceback__, folder)
    return one_line(f"{name}: {text}" if text else name) + (f" ({where})" if where else "")


def message_of(error: BaseException) -> str:
    """What an exception says, as valid Unicode. Empty if it cannot be shown: its class may be one of the task."""
    try:
        return str(error).encode(errors="replace").decode()
    except FATAL:
        raise
    except Exception:  # noqa: BLE001 - the task may raise anything here
        return ""


def from_spark(text: str) -> str:
    """Spark's error class, its first sentence, and the position in the statement with its line. Of gRPC, status and details."""
    if status := of_grpc(text):
        return status
    text = text.partition("JVM stacktrace:")[0]
    if raised := last_raised(text):
        return raised
    first = next((line for line in text.splitlines() if line.strip()), "")
    position = _POSITION.search(text)
    message = _SQLSTATE.sub("", _POSITION.sub("", first)).rstrip(" .;")
    return message if position is None else f"{message} (line {position[1]}, position {_from_one(position)}{_marked(text)})"


def _marked(text: str) -> str:
    """The line of the statement that Spark has marked, shortened."""
    marked = _MARKED.search(text)
    return f": {shorten(marked[1], MAX_LINE, placeholder=' …')}" if marked else ""


def of_grpc(text: str) -> str:
    """`UNAVAILABLE: connections to all backends failing`, from what an error of gRPC says; empty for another text."""
    if (status := _GRPC_STATUS.search(text)) is None:
        return ""
    details = _GRPC_DETAILS.search(text)
    return f"{status[1]}: {details[1]}" if details and details[1] else status[1]


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


def one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LENGTH else line[: MAX_LENGTH - 1] + "…"
