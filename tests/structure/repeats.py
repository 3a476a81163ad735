"""Code that stands in the product twice: runs of identical lines.

White space at the ends of a line does not count; blank lines, comments, imports and lines of punctuation alone are passed over.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.structure.imports import ROOT, nodes
from tests.structure.sizes import product_files

LINES = 6


def repeats() -> list[tuple[str, str]]:
    """Pairs of places, as `path:line`, at which the same run of at least `LINES` lines begins."""
    places: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in product_files():
        lines = list(_lines(path))
        for start in range(len(lines) - LINES + 1):
            run = lines[start : start + LINES]
            places[tuple(text for _, text in run)].append(f"{path.relative_to(ROOT)}:{run[0][0]}")
    return sorted((first, other) for first, *others in places.values() for other in others)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    passed = set(_imports(path)) if path.suffix == ".py" else set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.strip()
        if number not in passed and any(character.isalnum() for character in text) and not text.startswith(("#", "--")):
            yield number, text


def _imports(path: Path) -> Iterator[int]:
    for node in nodes(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)
