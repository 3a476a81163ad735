"""Names that say nothing of their subject: CONTRIBUTING.md has the rule."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.structure.imports import ROOT, nodes
from tests.structure.sizes import product_files

_UNCLEAR = re.compile(r"(?:^|_)(?:utils?|helpers?|managers?)(?:_|$)|(?:Utils?|Helpers?|(?<!Context)Managers?)(?![a-z])")
_NAMED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def is_unclear(name: str) -> bool:
    return _UNCLEAR.search(name) is not None


def unclear_names() -> Iterator[str]:
    """Files, classes and functions of the product, and files of the tests, as `path` or `path:line name`."""
    tests = (path for path in sorted((ROOT / "tests").rglob("*")) if path.suffix in {".py", ".sql"})
    yield from (str(path.relative_to(ROOT)) for path in (*product_files(), *tests) if _has_unclear_part(path))
    for path in product_files():
        if path.suffix == ".py":
            yield from _defined(path)


def _has_unclear_part(path: Path) -> bool:
    return any(is_unclear(part) for part in path.relative_to(ROOT).with_suffix("").parts)


def _defined(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, _NAMED) and is_unclear(node.name):
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
