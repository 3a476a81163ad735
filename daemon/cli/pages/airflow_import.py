"""The page of `import-airflow`: what was left out, line by line."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.daemon.cli.pages import output
from tidegate.daemon.terminal import printable
from tidegate.schemas.text import counted

if TYPE_CHECKING:
    from tidegate.daemon.airflow_import.report import Translation

TITLES = ("PLACE", "LEFT OUT", "WHY", "INSTEAD")


def print_report(translations: Mapping[Path, "Translation"], problems: Mapping[Path, str]) -> None:
    """A table of the parts without an equivalent; unreadable files on stderr."""
    rows = [
        (f"{path}:{left.line}", left.what, left.why, left.instead)
        for path, translation in translations.items()
        for left in translation.omissions
    ]
    output.table(TITLES, rows, empty="nothing was left out")
    for problem in problems.values():
        output.say(printable(problem))


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
