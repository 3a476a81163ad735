"""The page of `import-airflow`: what was left out, line by line."""

import shutil
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.daemon.cli.pages import output
from tidegate.daemon.terminal import printable
from tidegate.schemas.text import counted

if TYPE_CHECKING:
    from tidegate.daemon.airflow_import.report import Translation

NARROWEST, WIDEST = 40, 100
"""Columns of the list. A terminal in between sets them."""


def print_report(translations: Mapping[Path, "Translation"], problems: Mapping[Path, str]) -> None:
    """The parts without an equivalent, each with its place, the reason and what to do; unreadable files on stderr."""
    parts = [(path, left) for path, translation in translations.items() for left in translation.omissions]
    for path, left in parts:
        for line in _wrapped(f"{path}:{left.line}: {left.what}", f"{left.why}; {left.instead}"):
            output.write(line)
    if not parts:
        output.say("nothing was left out")
    for problem in problems.values():
        output.say(printable(problem))


def _wrapped(head: str, reason: str) -> Iterator[str]:
    """An entry in lines that fit a terminal. A word that is longer, such as a path, stays whole."""
    width = min(max(shutil.get_terminal_size((WIDEST, 24)).columns, NARROWEST), WIDEST)
    for text, first, further in ((head, "", "    "), (reason, "    ", "    ")):
        yield from textwrap.wrap(
            printable(text),
            width,
            initial_indent=first,
            subsequent_indent=further,
            break_long_words=False,
            break_on_hyphens=False,
        )


def document(path: Path, translation: "Translation | None", problem: str | None) -> dict[str, Any]:
    """`text` is the Tidegate file; null if the Airflow file could not be read."""
    return {
        "path": str(path),
        "problem": problem,
        "left_out": translation.omissions if translation else (),
        "text": translation.text if translation else None,
    }


def summary(translations: Mapping[Path, "Translation"], problems: Mapping[Path, str], folder: Path | None) -> Iterator[str]:
    """How many files were translated, and what to do next."""
    left = sum(len(translation.omissions) for translation in translations.values())
    yield f"{counted(len(translations), 'file', 'files')} translated, {counted(left, 'part', 'parts')} left out"
    if folder is None:
        yield "nothing was written; add --output DIR"
    elif len(problems) < len(translations):
        yield f"check the files with `tidegate check {printable(str(folder))}`"
