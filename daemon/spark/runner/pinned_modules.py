"""Imports the modules of the DAG folder as they were when the run's version of the DAG was parsed."""

import linecache
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_loader
from pathlib import Path

from tidegate.schemas.dag import ModuleSource, archive_of


def install(folder: Path, dag_path: str, modules: Iterable[ModuleSource]) -> None:
    """Import these modules from now on, for a DAG file of the folder. Modules of its archive come first, by their names in it."""
    kept = tuple(modules)
    PinnedModules(folder, kept).install()
    if (archive := archive_of(dag_path)) is not None:
        inside = (module for module in kept if module.path.startswith(f"{archive}/"))
        own = (ModuleSource(module.path.removeprefix(f"{archive}/"), module.digest, module.source) for module in inside)
        PinnedModules(folder / archive, own).install()


class PinnedModules(MetaPathFinder, ExecutionLoader):
    """Their names and file names are those of the files in the DAG folder. All other modules are imported as ever.

    Applications are among the files, so that a folder of them may be named like an installed package.
    """

    def __init__(self, folder: Path, modules: Iterable[ModuleSource]) -> None:
        self._folder = folder
        self._sources = {module.path: module.source for module in modules}

    def install(self) -> None:
        """Import these modules from now on, and show their source lines in tracebacks: the files on disk may have changed."""
        for path, source in self._sources.items():
            cache_lines(str(self._folder / path), source)
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, *_: object) -> ModuleSpec | None:
        inside = fullname.replace(".", "/")
        here = str((self._folder / inside).parent)
        if path is not None and here not in path:
            return None  # It is inside of an installed package.
        if self._path(fullname) is not None:
            return spec_from_loader(fullname, self)
        if not any(each.startswith(f"{inside}/") for each in self._sources):
            return None
        return self._namespace(fullname, [place for place in (sys.path if path is None else path) if place != here])

    def _namespace(self, fullname: str, elsewhere: Sequence[str]) -> ModuleSpec | None:
        """A folder without __init__.py, which Python takes only if there is no module or package of that name elsewhere."""
        found = PathFinder.find_spec(fullname, elsewhere)
        if found is not None and found.loader is not None:
            return None
        others = None if found is None else found.submodule_search_locations
        namespace = ModuleSpec(fullname, None, is_package=True)
        namespace.submodule_search_locations = [str(self._folder / fullname.replace(".", "/")), *(others or ())]
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
