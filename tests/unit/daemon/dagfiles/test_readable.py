"""The folders of modules that DAG files may read."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidegate.daemon.dagfiles.readable import module_folders, outermost, present


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the only modules of the interpreter."""
    folder = tmp_path / "lib/site-packages"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", ["", str(folder)])
    return folder


@pytest.mark.parametrize(("cache", "readable"), [("cache", "cache/abc"), ("archive-v0", "archive-v0")])
def test_links_of_modules_and_whole_packages_that_an_installer_has_linked_are_followed(
    cache: str, readable: str, modules: Path, tmp_path: Path
) -> None:
    cached = tmp_path / cache / "abc"
    (cached / "etl-1.dist-info").mkdir(parents=True)
    (cached / "etl-1.dist-info/METADATA").touch()
    (modules / "etl-1.dist-info").mkdir()
    (modules / "etl-1.dist-info/METADATA").symlink_to(cached / "etl-1.dist-info/METADATA")
    (tmp_path / "one.py").touch()
    (modules / "one.py").symlink_to(tmp_path / "one.py")

    found = module_folders({})

    assert {str(modules), str(tmp_path / readable), str(tmp_path / "one.py")} <= set(found)
    assert str(tmp_path) not in found


def test_links_in_packages_of_other_folders_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src/etl").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "src/etl/steps").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "src")])

    assert str(tmp_path / "elsewhere") in module_folders({})


def test_packages_of_editable_installations_and_libraries_are_found(
    modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = SimpleNamespace(MAPPING={"etl": str(tmp_path / "checkout/etl")})
    monkeypatch.setitem(sys.modules, "__editable___etl_1_finder", finder)

    found = module_folders({"LD_LIBRARY_PATH": f"{tmp_path}/oracle:"})

    assert {f"{tmp_path}/checkout/etl", f"{tmp_path}/oracle"} <= set(found)


def test_folders_below_others_are_not_named_twice() -> None:
    assert outermost(["/a/b", "/a", "/ab", "/a/b/c", "/c/d"]) == ("/a", "/ab", "/c/d")


def test_files_and_folders_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "modules.zip").touch()

    found = present([str(tmp_path), str(tmp_path / "modules.zip"), str(tmp_path / "missing")])

    assert str(tmp_path) in found.folders
    assert str(tmp_path / "modules.zip") in found.files
    assert str(tmp_path / "missing") not in (*found.folders, *found.files)
