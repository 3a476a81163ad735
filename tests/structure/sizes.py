"""How large the product is: lines, files and functions."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tests.structure.imports import FOLDERS, ROOT, nodes

_HIDES = re.compile(r"#\s*(?:type:\s*ignore|mypy:|pyright:|pragma:\s*no\b|(?:ruff|flake8):\s*noqa|noqa:.*TID251)", re.IGNORECASE)


class Sizes(msgspec.Struct, frozen=True):
    """Lengths in lines. A function counts from `def` to its last line; files are named by their paths below the repository."""

    lines: int
    files: Mapping[str, int]
    """The length of each file, the longest first. Migrations are none of them: they are not edited."""
    functions: Mapping[str, int]
    """The length of each function, as `path:line name`, the longest first."""
    function_median: int
    function_p95: int
    untyped: tuple[str, ...]
    """Functions with a parameter or a result without annotation, as `path:line`."""
    ignored: tuple[str, ...]
    """Lines on which the type checker, coverage or a ban of imports is told to look away, as `path:line`."""


def measure() -> Sizes:
    """Measure the Python and SQL of the product, as it lies in the work tree."""
    lengths = {path: len(path.read_text().splitlines()) for path in product_files()}
    bounded = (path for path in (*lengths, *_templates()) if path.parent.name != "migrations")
    functions = [(path, node) for path in lengths if path.suffix == ".py" for node in _functions(path)]
    spans = sorted(map(_span, (node for _, node in functions)))
    return Sizes(
        lines=sum(lengths.values()),
        files=_longest_first({_short(path): len(path.read_text().splitlines()) for path in bounded}),
        functions=_longest_first({f"{_short(path)}:{node.lineno} {node.name}": _span(node) for path, node in functions}),
        function_median=spans[len(spans) // 2],
        function_p95=spans[len(spans) * 95 // 100],
        untyped=tuple(f"{_short(path)}:{node.lineno}" for path, node in functions if not _is_typed(node)),
        ignored=tuple(_ignored(lengths)),
    )


def product_files() -> Iterator[Path]:
    """The Python and SQL of the product; the configuration of its documentation site is none of it."""
    for folder in (*FOLDERS, ".src/tidegate"):
        paths = (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in {".py", ".sql"})
        yield from (path for path in paths if "docs" not in path.relative_to(ROOT).parts)


def _templates() -> Iterator[Path]:
    for folder in ("templates", "static"):
        yield from sorted(path for path in (ROOT / "daemon/web" / folder).iterdir() if path.suffix in {".html", ".css", ".js"})


def _longest_first(lengths: Mapping[str, int]) -> Mapping[str, int]:
    return dict(sorted(lengths.items(), key=lambda item: -item[1]))


def _span(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _is_typed(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    arguments += [extra for extra in (function.args.vararg, function.args.kwarg) if extra]
    named = [argument for argument in arguments if argument.arg not in {"self", "cls"}]
    return function.returns is not None and all(argument.annotation for argument in named)


def _ignored(paths: dict[Path, int]) -> Iterator[str]:
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if hides(line):
                yield f"{_short(path)}:{number}"


def hides(line: str) -> bool:
    """Whether a remark on the line hides it from the type checker, from coverage or from the banned names."""
    return _HIDES.search(line) is not None


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT))
