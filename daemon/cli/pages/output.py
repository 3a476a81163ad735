"""Output of commands: tables and facts for people, one JSON document for programs.

On a terminal, tables fit its width and states have colours. Elsewhere they are plain. Nothing is ever truncated.
Characters that a terminal would obey are shown as escapes, because ids, reasons and logs come from outside.
"""

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import datetime

import msgspec

from tidegate.daemon.terminal import printable, visible
from tidegate.schemas.text import utc

NOTHING = "-"
STDIN, STDOUT, STDERR = range(3)

_UNPRINTABLE = (*range(0x7F, 0xA0), 0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in _UNPRINTABLE}
"""Escapes of unprintable characters; JSON itself escapes only those below U+0020."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")

Cell = str | int | float | datetime | None


def write(text: str = "") -> None:
    """Text on stdout, in one line or more."""
    sys.stdout.write(f"{visible(text)}\n")


class ByteWriter:
    """Writes the chunks of a log to stdout, each at once: to a terminal what people can read, elsewhere the bytes as they are."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode

    def write(self, content: bytes) -> None:
        if sys.stdout.isatty():
            sys.stdout.write(visible(self._decode(content).replace("\r\n", "\n"), kept="\n\t"))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        sys.stdout.flush()


def say(text: str) -> None:
    """Text on stderr, which is not part of the answer."""
    sys.stderr.write(f"{visible(text)}\n")
    sys.stderr.flush()


def write_json(value: object) -> None:
    """The one document of a command; structs are objects, times ISO 8601. It is UTF-8 in every locale."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode().translate(_JSON_ESCAPES)
    if codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8":
        text = _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)
    sys.stdout.write(f"{text}\n")


@contextmanager
def answer_apart() -> Iterator[None]:
    """What this process and its children print meanwhile goes to stderr: it is not the answer of the command."""
    sys.stdout.flush()
    answer = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stderr.flush()
        os.dup2(answer, STDOUT)
        os.close(answer)


def open_streams() -> None:
    """Let all standard streams lead somewhere, closed ones to the null device, and none fail for a character.

    A socket with the number of a closed stream would get what children print. The lowest free number is the next one opened.
    """
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - it takes no keyword
    sys.stdout = sys.stdout or os.fdopen(STDOUT, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(STDERR, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot encode a character shows a replacement instead of failing.
            stream.reconfigure(errors="replace")


def write_page(document: object, print_page: Callable[[], None], *, json: bool) -> None:
    """The answer of a command: its document with `--json`, else its page."""
    if json:
        write_json(document)
    else:
        print_page()


def write_result(document: object, sentence: str, *, json: bool) -> None:
    """The result of a command that changes something: its document with `--json`, else one sentence."""
    write_page(document, lambda: write(sentence), json=json)


def compact(value: object) -> str:
    """JSON on one line, for a cell of a table; empty for an empty value."""
    return msgspec.json.encode(value).decode() if value else ""


def heading(text: str) -> None:
    if sys.stdout.isatty():
        from tidegate.daemon.cli.pages import pretty

        pretty.heading(printable(text))
    else:
        write(printable(text))


def facts(pairs: Iterable[tuple[str, Cell]]) -> None:
    """`name  value` lines. Facts without a value are left out."""
    known = [(name, shown(value)) for name, value in pairs if value not in (None, "")]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        write(f"  {name:{width}}  {value}")


def table(titles: Sequence[str], rows: Iterable[Sequence[Cell]], *, empty: str) -> None:
    """`empty` is printed where there are no rows."""
    cells = [[shown(cell) for cell in row] for row in rows]
    if not cells:
        say(empty)
    elif sys.stdout.isatty():
        from tidegate.daemon.cli.pages import pretty

        pretty.table(titles, cells)
    else:
        for line in plain(titles, cells):
            write(line)


def section(title: str, titles: Sequence[str], rows: Iterable[Sequence[Cell]], *, empty: str) -> None:
    """A table with a heading."""
    known = list(rows)
    write()
    heading(title)
    if known:
        table(titles, known, empty=empty)
    else:
        write(f"  {empty}")


def plain(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Columns two spaces apart, as wide as they need to be."""
    lines = [titles, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    for line in lines:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def shown(cell: Cell) -> str:
    if cell is None or cell == "":
        return NOTHING
    return printable(utc(cell) if isinstance(cell, datetime) else str(cell))
