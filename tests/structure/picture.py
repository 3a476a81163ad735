"""The picture of the layout in CONTRIBUTING.md, made from the imports.

Each row holds the entries of one level; an entry imports entries of lower rows only, of its own folder and of the folders below.
"""

import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.structure.imports import FOLDERS, ROOT, import_graph, levels

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- picture: begin (make picture) -->\n", "<!-- picture: end -->"
WIDTH = 110


def drawn() -> str:
    """The picture, as a fenced block."""
    rows = [row for folder in reversed(FOLDERS) for row in (*_folder(folder), "")]
    return "\n".join(("```text", *rows[:-1], "```", ""))


def written(document: str) -> str:
    """The document with the picture as it is now. Raises ValueError with a sentence if it has no place for one."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{CONTRIBUTING.name} has no place for the picture: put a line {BEGIN.strip()} and below it {END}")
    return f"{before}{BEGIN}{drawn()}{END}{after}"


def _folder(name: str) -> Iterator[str]:
    by_level: dict[int, list[str]] = defaultdict(list)
    folder = ROOT / name
    for entry, level in levels(import_graph(folder, f"tidegate.{name}")).items():
        by_level[level].append(_label(folder, entry))
    for level in sorted(by_level, reverse=True):
        lines = textwrap.wrap("  ".join(sorted(by_level[level])), WIDTH, break_on_hyphens=False)
        for number, line in enumerate(lines):
            first = name if level == max(by_level) and number == 0 else ""
            yield f"{first:<9} {level if number == 0 else '':>2}  {line}".rstrip()


def _label(folder: Path, entry: str) -> str:
    return f"{entry}/" if (folder / entry).is_dir() else entry
