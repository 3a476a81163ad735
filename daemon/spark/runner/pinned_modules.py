"""Imports the modules of the DAG folder as they were when the run's version of the DAG was parsed."""

import linecache
import sys
from collections.abc import Iterable
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path

from tidegate.schemas.dag import ModuleSource


class PinnedModules(MetaPathFinder, ExecutionLoader):
    """Their names and file names are those of the files in the DAG folder. All other modules are imported as ever."""

    def __init__(self, folder: Path, modules: Iterable[ModuleSource]) -> None:
        self._folder = folder
        self._sources = {module.path: module.source for module in modules}

    def install(self) -> None:
        """Import these modules from now on, and show their source lines in tracebacks: the files on disk may have changed."""
        for path, source in self._sources.items():
            cache_lines(str(self._folder / path), source)
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, *_: object, **__: object) -> ModuleSpec | None:
        found = self._path(fullname)
        if found is not None:
            return spec_from_loader(fullname, self)
        inside = f"{fullname.replace('.', '/')}/"
        if not any(path.startswith(inside) for path in self._sources):
            return None
        # A folder without __init__.py.
        namespace = ModuleSpec(fullname, None, is_package=True)
        namespace.submodule_search_locations = [str(self._folder / inside)]
        return namespace

    def is_package(self, fullname: str) -> bool:
        return self._existing(fullname).endswith("/__init__.py")

    def get_source(self, fullname: str) -> str:
        return self._sources[self._existing(fullname)]

    def get_filename(self, fullname: str) -> str:
        return str(self._folder / self._existing(fullname))

    def _existing(self, fullname: str) -> str:
        path = self._path(fullname)
        if path is None:
            raise ImportError(f"no module {fullname!r}", name=fullname)
        return path

    def _path(self, fullname: str) -> str | None:
        stem = fullname.replace(".", "/")
        return next((path for path in (f"{stem}/__init__.py", f"{stem}.py") if path in self._sources), None)


def cache_lines(filename: str, source: str) -> None:
    """Let tracebacks show this source, whatever is in the file now."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
