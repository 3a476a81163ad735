"""Imports go one way: no circles, and few levels."""

from pathlib import Path

import pytest

from tests.structure.imports import FOLDERS, ROOT, Graph, import_graph, levels

LIMITS = {"schemas": 7, "handlers": 7, "events": 7, "daemon": 9}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_entries_of_a_folder_stand_on_few_levels(folder: str) -> None:
    graph = import_graph(ROOT / folder, f"tidegate.{folder}")

    assert max(levels(graph).values()) <= LIMITS[folder]


@pytest.mark.parametrize(
    "package",
    [str(path.parent.relative_to(ROOT)) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*/__init__.py"))],
)
def test_the_modules_of_a_room_import_each_other_one_way(package: str) -> None:
    levels(import_graph(ROOT / package, f"tidegate.{package.replace('/', '.')}"))


def test_a_level_is_one_more_than_the_highest_import() -> None:
    graph: Graph = {"a": frozenset({"b", "c"}), "b": frozenset({"c"}), "c": frozenset()}

    assert levels(graph) == {"a": 3, "b": 2, "c": 1}


def test_a_circle_is_an_error_that_names_its_entries() -> None:
    with pytest.raises(ValueError, match=r"circle of imports among a, b$"):
        levels({"a": frozenset({"b"}), "b": frozenset({"a"}), "c": frozenset()})


def test_imports_of_all_kinds_are_read(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "__init__.py").touch()
    (tmp_path / "room" / "inner.py").write_text("from p.one import x\n\ndef f():\n    import p.two\n")
    (tmp_path / "one.py").write_text("from p import two\nimport os\nfrom elsewhere import three\n")
    (tmp_path / "two.py").touch()

    assert import_graph(tmp_path, "p") == {"one": {"two"}, "room": {"one", "two"}, "two": set()}
