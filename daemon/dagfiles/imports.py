"""Inside a sandbox: the files below the DAG folder that a DAG file depends on.

These are the files that it opens, modules among them, and the modules that its functions or those of its modules import later.
The digest of a file is taken before the DAG file reads it: a change in between makes a digest that no longer fits, never one that
hides the change.
"""

import ast
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import source_from_cache

from tidegate.daemon.dagfiles.message import DENIED, MAX_BYTES, MAX_IMPORTS, NOT_READ, Script
from tidegate.schemas.dag import ModuleSource, archive_of

_LATER = re.compile(r"^[ \t]+(import|from)\s", re.MULTILINE)
"""An import in a function, a `try` or an `if`; all others have been executed."""


class ImportTracker:
    """The SHA-256 of each file by its path relative to the DAG folder; `NOT_READ` for a missing one."""

    def __init__(self, root: str, filename: str) -> None:
        self.digests: dict[str, str] = {}
        self._root = root
        self._folders = {f"{folder}/" for folder in (root, os.path.realpath(root))}
        self._own = filename.removeprefix(f"{root}/")
        self._archive = archive_of(self._own)

    def track(self) -> None:
        """Record each file that this process opens from now on."""
        sys.addaudithook(self._audit)

    def add_later(self, script: Script, *, has_failed: bool) -> None:
        """Add the modules that functions import, transitively; of a file that `has_failed` also its further imports.

        The modules of its archive are known already.
        """
        archived = [(module.source, package_of(self._inside(module))) for module in script.modules]
        known = {self._inside(module).partition("/")[0].removesuffix(".py") for module in script.modules}
        texts = [(script.text, ""), *archived, *((self._text(path), package_of(path)) for path in tuple(self.digests))]
        while texts:
            text, package = texts.pop()
            names = imported(text, package) if has_failed or _LATER.search(text) else ()
            for name in (name for name in names if name.partition(".")[0] not in known):
                texts += ((self._text(path), package_of(path)) for path in self._add_module(name))

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            for folder in self._folders:
                if path.startswith(folder):
                    self._add(_source_of(path.removeprefix(folder)))

    def _add(self, path: str) -> bool:
        """Record the file, unless it is known; its digest is set twice, because reading it is an audit event as well."""
        is_new = path not in self.digests and path != self._own and len(self.digests) < MAX_IMPORTS
        if is_new and _is_name(path) and not self._is_archived(path):
            self.digests[path] = NOT_READ
            self.digests[path] = _digest(os.path.join(self._root, path))
        return is_new

    def _is_archived(self, path: str) -> bool:
        """Whether a path leads into an archive: there is no such file."""
        archive = archive_of(path)
        return archive is not None and os.path.isfile(os.path.join(self._root, archive))

    def _inside(self, module: ModuleSource) -> str:
        """The path of a module in the archive of this file."""
        return module.path.removeprefix(f"{self._archive}/")

    def _add_module(self, name: str) -> Iterator[str]:
        """Record the files that an import of the module executes, or the first one that it lacks; yields the new ones."""
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            path = "/".join(parts[:count])
            found = [file for file in (f"{path}/__init__.py", f"{path}.py") if os.path.isfile(os.path.join(self._root, file))]
            if not found and not os.path.isdir(os.path.join(self._root, path)):
                if count > 1 or parts[0] not in sys.modules:
                    self._add(f"{path}.py")
                return
            yield from (file for file in found[:1] if self._add(file))
            if found == [f"{path}.py"]:
                return

    def _text(self, path: str) -> str:
        with suppress(OSError, UnicodeDecodeError):
            if path.endswith(".py"):
                with open(os.path.join(self._root, path), encoding="utf-8-sig") as file:
                    return file.read(MAX_BYTES)
        return ""


def imported(source: str, package: str) -> Iterator[str]:
    """The absolute names of all modules that a module of this package may import."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from _imported_from(node, package.split("."))


def _imported_from(node: ast.ImportFrom, package: list[str]) -> Iterator[str]:
    """Each name may be a module or an attribute of the package."""
    above = package[: len(package) - node.level + 1] if node.level else []
    base = ".".join(filter(None, (*above, node.module)))
    yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)


def package_of(path: str) -> str:
    """The package of a module, by its path."""
    return path.rpartition("/")[0].replace("/", ".")


def _source_of(path: str) -> str:
    """The module of a file with bytecode; other files themselves."""
    with suppress(ValueError):
        return source_from_cache(path) if path.endswith(".pyc") else path
    return path


def _is_name(path: str) -> bool:
    """Whether Postgres accepts the name, and it is none like `<string>`, which Python opens to show a syntax error."""
    return not path.startswith("<") and "\0" not in path and not any("\ud800" <= character <= "\udfff" for character in path)


def _digest(path: str) -> str:
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_BYTES:
            with open(path, "rb") as file:
                return hashlib.sha256(file.read()).hexdigest()
    except PermissionError:
        return DENIED
    except OSError:
        pass
    return NOT_READ
