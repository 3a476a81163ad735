"""Modules of the DAG folder at the version of a run, whatever is in the folder now."""

import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tidegate.daemon.spark.runner.pinned_modules import PinnedModules
from tidegate.schemas.dag import ModuleSource

SOURCES = {
    "pinned_top.py": "from pinned_space.inner import VALUE\n",
    "pinned_space/inner.py": "from pinned_package import NAME\nVALUE = f'{NAME} as parsed'\n",
    "pinned_package/__init__.py": "from .part import NAME\n",
    "pinned_package/part.py": "NAME = 'part'\ndef fail():\n    raise ValueError('as parsed')\n",
    "installed/load.py": "raise AssertionError('an application was imported')\n",
    "installed/part.py": "raise AssertionError('an application was imported')\n",
    "shared/here.py": "VALUE = 'here'\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules have changed since, but for one that was not imported then. Packages are installed beside it."""
    (tmp_path / "pinned_top.py").write_text("VALUE = 'changed'\n")
    (tmp_path / "pinned_new.py").write_text("VALUE = 'found'\n")
    for name, source in {
        "installed/__init__.py": "from installed.part import VALUE",
        "shared/there.py": "VALUE = 'there'",
    }.items():
        (tmp_path / "site" / name).parent.mkdir(parents=True)
        (tmp_path / "site" / name).write_text(source)
    (tmp_path / "site/installed/part.py").write_text("VALUE = 'of the package'\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    before = set(sys.modules)
    PinnedModules(tmp_path, [ModuleSource(path, "", source) for path, source in SOURCES.items()]).install()
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_modules_are_imported_as_they_were_parsed_even_if_they_are_gone(folder: Path) -> None:
    assert import_module("pinned_top").VALUE == "part as parsed"


def test_other_modules_are_imported_from_the_folder(folder: Path) -> None:
    assert import_module("pinned_new").VALUE == "found"
    with pytest.raises(ModuleNotFoundError, match=r"pinned_space\.gone"):
        import_module("pinned_space.gone")


def test_a_folder_of_applications_hides_no_installed_package(folder: Path) -> None:
    assert import_module("installed").VALUE == "of the package"
    with pytest.raises(ModuleNotFoundError, match=r"installed\.load"):
        import_module("installed.load")


def test_folders_of_one_name_without_an_init_are_one_package(folder: Path) -> None:
    assert (import_module("shared.here").VALUE, import_module("shared.there").VALUE) == ("here", "there")


def test_a_module_has_the_name_and_the_lines_of_its_file(folder: Path) -> None:
    part = import_module("pinned_package.part")
    with pytest.raises(ValueError, match="as parsed") as raised:
        part.fail()

    frame = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (part.__file__, frame.filename) == (str(folder / "pinned_package/part.py"),) * 2
    assert frame.line == "raise ValueError('as parsed')"
