"""The modules of the folders that are imported: which file an import names, and what its translation has of it."""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Generic, TypeVar

import msgspec

from tidegate.daemon.airflow_import.source import Source, parse_source

Translated = TypeVar("Translated")
"""What the translation of a module says of its names."""

_NEVER_OURS = sys.stdlib_module_names | {"airflow", "tidegate"}
_ON_THE_PATH = ("dags", "plugins", "include")
"""Folders of Airflow whose modules are imported without the name of the folder."""


class Local(msgspec.Struct, frozen=True):
    """A name that a module of the tree gives: the module as an import and as a file, and its name there; empty for the module."""

    dotted: str
    module: str
    name: str = ""

    def text(self, local: str) -> str:
        """The import of it under a name."""
        if self.name:
            return f"from {self.dotted} import {self.name}{f' as {local}' if local != self.name else ''}"
        package, _, last = self.dotted.rpartition(".")
        head = f"from {package} import {last}" if package else f"import {last}"
        return f"{head} as {local}" if local != last else head


class Modules(Generic[Translated]):
    """The files by path below the folder that is written. Each is translated before the first file that imports it."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        folder_names: frozenset[str],
        translate: "Callable[[Modules[Translated], str], Translated | None]",
    ) -> None:
        self._files = frozenset(sources)
        self._folders = {str(folder) for path in sources for folder in PurePosixPath(path).parents if str(folder) != "."}
        self._roots = frozenset(folder_names)
        self.sources = {path: self._canonical(path, source) for path, source in sources.items()}
        self._translate = translate
        self._contexts: dict[str, Translated | None] = {}
        self.read_at_parsing: set[str] = set()
        self.default_args: dict[str, set[str]] = {}
        self.used_elsewhere: dict[str, set[str]] = {}
        self._find_uses()

    def context(self, path: str) -> Translated | None:
        """What the translation of a module says of its names; None for one that imports the file which asks."""
        if path not in self._contexts:
            self._contexts[path] = None
            self._contexts[path] = self._translate(self, path)
        return self._contexts[path]

    def find(self, module: str) -> str | None:
        """The file of a module by its name below the folder that is written; a folder without `__init__.py` as itself."""
        path = module.replace(".", "/")
        found = (candidate for candidate in (f"{path}.py", f"{path}/__init__.py") if candidate in self._files)
        return next(found, path if path in self._folders else None)

    def _canonical(self, path: str, source: Source) -> Source:
        """The file with the names that modules have below the folder that is written. No line moves."""
        lines = list(source.lines)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom):
                found = self._resolved(path, node.module or "", node.level)
                if found is not None and (node.level or found != node.module):
                    self._rename(lines, node, found)
        return source if lines == source.lines else parse_source(source.name, "\n".join(lines).encode())

    def _rename(self, lines: list[str], node: ast.ImportFrom, found: str) -> None:
        line = lines[node.lineno - 1]
        start = len(line.encode()[: node.col_offset].decode())
        lines[node.lineno - 1] = line[:start] + re.sub(r"from\s*[\w.]+(?=\s)", f"from {found}", line[start:], count=1)

    def _resolved(self, path: str, module: str, level: int) -> str | None:
        """The name of a module below the folder that is written; None for one of another package."""
        package = PurePosixPath(path).parent.parts
        if level:
            parts = [*package[: len(package) - level + 1], *(module.split(".") if module else [])]
            named = level <= len(package) + 1 and parts and all(map(str.isidentifier, parts))
            return ".".join(parts) if named and self.find(".".join(parts)) else None
        first, _, rest = module.partition(".")
        if first in _NEVER_OURS:
            return None
        for name in (module, rest) if first in self._roots and rest else (module,):
            for folder in self._search(package):
                dotted = ".".join((*folder, name))
                if self.find(dotted) is not None and all(map(str.isidentifier, folder)):
                    return dotted
        return None

    def _search(self, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """The folders that Airflow may have on the path of Python: the outermost first."""
        yield ()
        above = [package[:count] for count in range(1, len(package) + 1)]
        yield from (folder for folder in above if folder[-1] in _ON_THE_PATH)
        named = sorted(folder for folder in self._folders if PurePosixPath(folder).name in _ON_THE_PATH)
        yield from (PurePosixPath(folder).parts for folder in named)
        yield from above

    def _find_uses(self) -> None:
        """By module, the names that other files import, and the variables among them that these pass as `default_args`."""
        for source in self.sources.values():
            imported = dict(self._imported(source.tree))
            for local in imported.values():
                self.used_elsewhere.setdefault(local.module, set()).add(local.name)
            for node in ast.walk(source.tree):
                read = self.named(node, imported) if isinstance(node, ast.Attribute) else None
                if read is not None:
                    self.used_elsewhere.setdefault(read.module, set()).add(read.name)
                value = node.value if isinstance(node, ast.keyword) and node.arg == "default_args" else None
                for passed in self._passed(value, imported, source.tree) if value is not None else ():
                    self.default_args.setdefault(passed.module, set()).add(passed.name)

    def _passed(self, node: ast.expr, imported: Mapping[str, Local], tree: ast.Module) -> Iterator[Local]:
        """The variable that a value is, in the module that sets it. A file may set another one to it, or get it by a star."""
        held = [
            assigned.value
            for assigned in ast.walk(tree)
            if isinstance(assigned, ast.Assign) and isinstance(node, ast.Name) and _last_name(assigned.targets[0]) == node.id
        ]
        for value in [node, *held]:
            found = self.named(value, imported)
            if found is not None:
                yield self._where_set(found, 0)
        if isinstance(node, ast.Name) and not held and node.id not in imported:
            yield from (self._where_set(Local("", module, node.id), 0) for module in self._stars(tree))

    def _where_set(self, local: Local, depth: int) -> Local:
        """The module that sets a name, through the modules that only import it."""
        source = self.sources.get(local.module)
        if source is None or depth > 5:
            return local
        found = dict(self._imported(source.tree)).get(local.name)
        if found is not None and found.name:
            return self._where_set(found, depth + 1)
        stores = {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        stars = () if local.name in stores else self._stars(source.tree)
        return next((self._where_set(Local("", module, local.name), depth + 1) for module in stars), local)

    def _stars(self, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*" and node.module and not node.level:
                module = self.find(node.module)
                if module is not None:
                    yield module

    @staticmethod
    def named(node: ast.expr, imported: Mapping[str, Local]) -> Local | None:
        """The name of a module that an expression reads: `args`, or `general.args`."""
        match node:
            case ast.Name(id=name) if name in imported and imported[name].name:
                return imported[name]
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in imported and not imported[name].name:
                return Local(imported[name].dotted, imported[name].module, attr)
            case _:
                return None

    def _imported(self, tree: ast.AST) -> Iterator[tuple[str, Local]]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    local = self.imported(node, alias)
                    if local is not None:
                        yield alias.asname or alias.name, local

    def imported(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> Local | None:
        """What an import names, if it is of the tree."""
        if isinstance(node, ast.Import):
            found = self.find(alias.name) if alias.name.split(".")[0] not in _NEVER_OURS else None
            return Local(alias.name, found) if found is not None and (alias.asname or "." not in alias.name) else None
        module = self.find(node.module) if node.module and node.module.split(".")[0] not in _NEVER_OURS else None
        if module is None or node.level:
            return None
        dotted = f"{node.module}.{alias.name}"
        below = self.find(dotted)
        return Local(dotted, below) if below is not None else Local(node.module or "", module, alias.name)


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
