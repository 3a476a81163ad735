"""How large the product is: lines, files and functions."""

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.structure.imports import FOLDERS, ROOT, parsed


class Sizes(msgspec.Struct, frozen=True):
    """Lengths in lines. A function counts from `def` to its last line; `longest_file` is its path below the repository."""

    lines: int
    longest_file: str
    longest_file_lines: int
    functions: int
    function_median: int
    function_p95: int
    untyped: tuple[str, ...]
    """Functions with a parameter or a result without annotation, as `path:line`."""
    ignored: tuple[str, ...]
    """Lines on which the type checker is told to look away, as `path:line`."""


def measure() -> Sizes:
    """Measure the Python and SQL of the product, as it lies in the work tree."""
    lengths = {path: len(path.read_text().splitlines()) for path in product_files()}
    longest = max((path for path in lengths if path.suffix == ".py"), key=lengths.__getitem__)
    functions = [(path, node) for path in lengths if path.suffix == ".py" for node in _functions(path)]
    spans = sorted((node.end_lineno or node.lineno) - node.lineno + 1 for _, node in functions)
    return Sizes(
        lines=sum(lengths.values()),
        longest_file=_short(longest),
        longest_file_lines=lengths[longest],
        functions=len(spans),
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


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(path)):
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
            if "type: ignore" in line:
                yield f"{_short(path)}:{number}"


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT))
