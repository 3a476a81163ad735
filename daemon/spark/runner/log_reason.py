"""The reason of a failure in one sentence, from the log of a program: its exception, the line of its author, the last cause."""

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

JVM_FRAME = re.compile(
    r"""^\s+at\ [\w.$/<>-]+\(  |  ^\s+\.\.\.\ \d+\ (more|common\ frames)
    | ^[\w.$/<>-]+\((\w+\.(java|scala)(:\d+)?|Native\ Method|Unknown\ Source)\)$""",
    re.VERBOSE,
)
"""A line of a stack in a JVM."""

_TRACEBACK = "Traceback (most recent call last):\n"
_RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Za-z_]\w*)(: .*)?$")
_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+)')
_IN_JVM = re.compile(r"^: (?:[\w$]+\.)*([\w$]+)\b(.*)$")
_JVM_RAISED = re.compile(r'^Exception in thread "[^"]*" (?:[\w$]+\.)*([\w$]+)(: .*)?$', re.MULTILINE)
_CAUSED_BY = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+)(: .*)?$", re.MULTILINE)
_SPARK_LOG = re.compile(r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ ")
_ENDED = re.compile(r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d ERROR \w+: (.*\b[Aa]pplication .*(?:killed|ended|failed).*)$", re.MULTILINE)
_STOPPED = "stopped SparkContext"
_CALLED = "An error occurred while calling "


def from_log(tail: str, folders: Sequence[Path] = ()) -> str:
    """The exception that ended the program, with the innermost line below one of the folders; else its last line."""
    if raised := last_raised(tail):
        return _with_place(_with_end(raised, tail), tail, folders)
    if jvm := list(_JVM_RAISED.finditer(tail)):
        return _caused(jvm[-1][1] + (jvm[-1][2] or ""), tail[jvm[-1].end() :])
    lines = [line for line in tail.splitlines() if line.strip() and not _SPARK_LOG.match(line) and not JVM_FRAME.match(line)]
    return lines[-1] if lines else ""


def last_raised(text: str) -> str:
    """The exception of the last Python traceback in a text, with its last cause in the JVM; empty without one."""
    _, found, after = text.rpartition(_TRACEBACK)
    lines = [line for line in after.splitlines() if line.strip()] if found else []
    for number, (line, following) in enumerate(zip_longest(lines, lines[1:], fillvalue="")):
        if not line[0].isspace():
            raised = _RAISED.match(line)
            message = raised[1] + (raised[2] or "") if raised else line
            return _caused(_with_following(message.rstrip(), following), "\n".join(lines[number + 1 :]))
    return ""


def _with_following(message: str, following: str) -> str:
    """The line of an exception, with the next one where that goes on after an empty line.

    The exception of the JVM takes the place of the one by which Python tells it.
    """
    if message.endswith(":"):
        return f"{message} {following}"
    if raised := _IN_JVM.match(following):
        return f"{raised[1]}{raised[2]}" if _CALLED in message else f"{message} {raised[1]}{raised[2]}"
    return message


def _caused(message: str, after: str) -> str:
    """The last cause in the JVM, unless the message says the same."""
    causes = list(_CAUSED_BY.finditer(after))
    if not causes:
        return message
    name, text = causes[-1][1], (causes[-1][2] or "").removeprefix(": ")
    is_said = text in message if text else name in message
    return message if is_said else f"{message.rstrip(' .')}; caused by {name}" + (f": {text}" if text else "")


def _with_end(raised: str, tail: str) -> str:
    """A context that was stopped tells no reason: the line of Spark before it does."""
    ends = _ENDED.findall(tail) if _STOPPED in raised else []
    return f"{raised.rstrip(' .:')}: {ends[-1]}" if ends else raised


def _with_place(raised: str, tail: str, folders: Sequence[Path]) -> str:
    frames = _FRAME.findall
    _, _, last = tail.rpartition(_TRACEBACK)
    places = [
        place for line in last.splitlines() for path, number in frames(line) if (place := _place(Path(path), number, folders))
    ]
    return f"{raised} ({places[-1]})" if places else raised


def _place(path: Path, number: str, folders: Iterable[Path]) -> str:
    """`app.py, line 4`; empty for a file in none of the folders."""
    return next((f"{path.relative_to(folder)}, line {number}" for folder in folders if path.is_relative_to(folder)), "")
