"""Imports go one way: no circles, and few levels."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.structure.imports import FOLDERS, ROOT, Graph, import_graph, imported, levels, nodes
from tests.structure.sizes import product_files

LIMITS = {"schemas": 7, "handlers": 7, "events": 7, "daemon": 9}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_entries_of_a_folder_stand_on_few_levels(folder: str) -> None:
    found = levels(import_graph(ROOT / folder, f"tidegate.{folder}"))

    high = sorted(entry for entry, level in found.items() if level > LIMITS[folder])
    assert high == [], f"{folder}/ has at most {LIMITS[folder]} levels: let {high} import entries of lower levels only"


@pytest.mark.parametrize(
    "package",
    [str(path.parent.relative_to(ROOT)) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*/__init__.py"))],
)
def test_the_modules_of_a_room_import_each_other_one_way(package: str) -> None:
    levels(import_graph(ROOT / package, f"tidegate.{package.replace('/', '.')}"))


def test_every_file_of_the_handlers_is_imported() -> None:
    """Coverage does not list a file that nothing loads."""
    files = [path for path in product_files() if path.suffix == ".py"]
    used = {name for path in files for name in imported(path)}
    decisions = [path for path in sorted((ROOT / "handlers").rglob("*.py")) if path.name != "__init__.py"]

    unused = [str(path.relative_to(ROOT)) for path in decisions if _module(path) not in used]
    assert unused == [], f"no other file imports {unused}: delete it, or enter it in HANDLERS of daemon/engine.py"


def _module(path: Path) -> str:
    return f"tidegate.{path.relative_to(ROOT).with_suffix('').as_posix().replace('/', '.')}"


def test_only_dag_files_import_the_names_for_dag_files() -> None:
    files = [path for path in product_files() if path.suffix == ".py" and not {"dags", ".src"} & {*path.relative_to(ROOT).parts}]

    found = [f"{path.relative_to(ROOT)}: {name}" for path in files for name in imported(path) if _is_for_dag_files(name)]
    assert found == [], f"import from the module below tidegate that defines it: {found}"


def _is_for_dag_files(name: str) -> bool:
    package, _, rest = name.partition(".")
    return package == "tidegate" and "." not in rest and rest not in {"", *FOLDERS}


def test_decisions_open_no_file_and_import_nothing_by_its_name() -> None:
    """What import-linter and ruff do not see: builtins."""
    found = [f"{path.relative_to(ROOT)}:{place}" for path in sorted((ROOT / "handlers").rglob("*.py")) for place in _impure(path)]

    assert found == [], f"read in daemon/, and hand it over in the message: {found}"


def _impure(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Name) and node.id in {"open", "input", "exec", "eval", "__import__"}:
            yield f"{node.lineno} {node.id}"


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
