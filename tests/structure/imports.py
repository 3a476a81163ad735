"""The import graph between the entries of a folder, read from the source.

An entry is a module or a package directly in the folder; imports inside a package do not count.
An import below `TYPE_CHECKING` or in a function counts like any other: the importing code knows the other entry.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("schemas", "handlers", "events", "daemon")

Graph = Mapping[str, frozenset[str]]
"""The entries that each entry imports."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, which several figures look at."""
    return tuple(ast.walk(parsed(path)))


@cache
def import_graph(folder: Path, package: str) -> Graph:
    """The graph of `folder`, which is imported as `package`. Imports of other packages are left out."""
    entries = {_entry(path, folder) for path in _modules(folder)}
    graph: dict[str, set[str]] = {entry: set() for entry in entries}
    for path in _modules(folder):
        entry = _entry(path, folder)
        graph[entry] |= {target for target in _targets(path, package) if target in entries and target != entry}
    return {entry: frozenset(targets) for entry, targets in sorted(graph.items())}


def levels(graph: Graph) -> dict[str, int]:
    """The level of each entry: 1 if it imports no other entry, else one more than the highest that it imports.

    Raises ValueError, which names the entries, if imports form a circle.
    """
    known: dict[str, int] = {}
    while len(known) < len(graph):
        ready = [entry for entry, targets in graph.items() if entry not in known and targets <= known.keys()]
        if not ready:
            raise ValueError(f"circle of imports among {', '.join(sorted(graph.keys() - known.keys()))}")
        known |= {entry: 1 + max((known[target] for target in graph[entry]), default=0) for entry in ready}
    return known


def _modules(folder: Path) -> list[Path]:
    paths = sorted(folder.rglob("*.py"))
    return [path for path in paths if path != folder / "__init__.py" and "docs" not in path.relative_to(folder).parts]


def _entry(path: Path, folder: Path) -> str:
    return path.relative_to(folder).parts[0].removesuffix(".py")


def _targets(path: Path, package: str) -> Iterator[str]:
    prefix = f"{package}."
    yield from (name.removeprefix(prefix).split(".")[0] for name in imported(path) if name.startswith(prefix))


@cache
def imported(path: Path) -> frozenset[str]:
    """The full names that a file imports, also in functions: `a.b` for `import a.b`, `a.b` and `a` for `from a import b`."""
    named = {alias.name for node in nodes(path) if isinstance(node, ast.Import) for alias in node.names}
    sources = [node for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.module]
    members = {f"{node.module}.{alias.name}" for node in sources for alias in node.names}
    return frozenset(named | members | {node.module for node in sources if node.module})
