"""Where the error of a log is, and which of its lines have a text."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

LINE_BYTES = 300
"""The most bytes of a line that is found."""

_COLOURS = rb"(?:\x1b\[[0-9;]*m)*"
_TRACEBACK = re.compile(rb"^" + _COLOURS + rb"Traceback \(most recent call last\):", re.MULTILINE)
_CHAINED = re.compile(
    rb"\n\n(?:During handling of the above exception, another exception occurred"
    rb"|The above exception was the direct cause of the following exception):\n\n\Z"
)
_RAISED = re.compile(
    rb"^"
    + _COLOURS
    + rb'(?:Exception in thread "[^"\n]*" )?(?:[\w$]+\.)*[A-Z][\w$]*(?:Error|Exception|Interrupt)(?::|[ \t\r]*$)',
    re.MULTILINE,
)
_LOGGED = re.compile(rb"^.{0,80}?\b(?:ERROR|FATAL|CRITICAL)\b", re.MULTILINE)
_FAILED = re.compile(rb"^" + _COLOURS + rb"(?:error|fatal|panic)\b.{0,20}?:", re.MULTILINE | re.IGNORECASE)


class LogMatch(msgspec.Struct, frozen=True):
    """A line that has the text: its byte offset, and its content, which may be cut."""

    offset: int
    line: str


class LogMatches(msgspec.Struct, frozen=True):
    """The first lines of a log that have a text, from a byte on. The search goes on at `next_offset`, unless it is at its end."""

    matches: list[LogMatch]
    next_offset: int | None


class Line(NamedTuple):
    """The place of a line in a part of a log."""

    begin: int
    end: int


def error_at(content: bytes) -> int | None:
    """The place of the line at which the last error of a log begins; None without one.

    That is the first of the tracebacks that are chained to the last one, else the last line that names an exception of another
    program, and else the last line of an error in any log.
    """
    tracebacks = [found.start() for found in _TRACEBACK.finditer(content)]
    if tracebacks:
        return _first_of_chain(content, tracebacks)
    for pattern in (_RAISED, _LOGGED, _FAILED):
        places = [found.start() for found in pattern.finditer(content)]
        if places:
            return places[-1]
    return None


def _first_of_chain(content: bytes, tracebacks: list[int]) -> int:
    first = tracebacks.pop()
    while tracebacks and _CHAINED.search(content, tracebacks[-1], first):
        first = tracebacks.pop()
    return first


def lines_with(text: bytes, content: bytes) -> Iterator[Line]:
    """The lines of a part of a log that have the text, each once; ASCII letters of either case count as equal."""
    lower, wanted, at = content.lower(), text.lower(), 0
    while (at := lower.find(wanted, at)) >= 0:
        begin, end = content.rfind(b"\n", 0, at) + 1, content.find(b"\n", at)
        yield Line(at if at - begin > LINE_BYTES else begin, len(content) if end < 0 else end)
        if end < 0:
            return
        at = end + 1


def match(content: bytes, line: Line, offset: int) -> LogMatch:
    """`offset` is that of the content."""
    shown = content[line.begin : min(line.end, line.begin + LINE_BYTES)]
    return LogMatch(offset + line.begin, shown.decode(errors="replace").rstrip("\r"))
