"""Output of commands: tables and facts for people, one JSON document for programs.

On a terminal, tables fit its width and states have colours. Elsewhere they are plain. Nothing is ever truncated.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from tidegate.schemas.timetable.text import utc

NOTHING = "-"

Cell = str | int | float | datetime | None


def write(text: str = "") -> None:
    """A line on stdout."""
    sys.stdout.write(f"{text}\n")


def write_bytes(content: bytes) -> None:
    """Raw bytes on stdout, at once."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def say(text: str) -> None:
    """A line on stderr, which is not part of the answer."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def write_json(value: object) -> None:
    """The one document of a command; structs are objects, times ISO 8601."""
    write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


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


def printable(text: str) -> str:
    """Text with escapes for characters that move the cursor of a terminal or break a line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
