"""What is never contained passes every broad handler of the product."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.schemas.error import DagFaultError, blame

ROOT = Path(__file__).parents[3]
FOLDERS = ("schemas", "handlers", "events", "daemon")
IN_CHILD_PROCESS = ROOT / "daemon/dagfiles/execute.py"
PASSED_ON = {"FATAL", "NOT_CONTAINED"}


def broad_handlers(path: Path) -> Iterator[tuple[int, bool]]:
    """The line of each `except Exception`, and whether a handler before it passes the fatal errors on."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Try | ast.TryStar):
            named: set[str] = set()
            for handler in node.handlers:
                names = {each.id for each in ast.walk(handler.type) if isinstance(each, ast.Name)} if handler.type else set()
                if "Exception" in names:
                    yield handler.lineno, bool(named & PASSED_ON)
                named |= names


def test_every_broad_handler_lets_the_fatal_errors_pass() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path != IN_CHILD_PROCESS]

    found = {f"{path.relative_to(ROOT)}:{line}": passes for path in files for line, passes in broad_handlers(path)}

    assert found
    assert [place for place, passes in found.items() if not passes] == []


def test_a_decision_without_memory_is_no_fault_of_its_dag() -> None:
    with pytest.raises(MemoryError), blame("dag"):
        raise MemoryError

    with pytest.raises(DagFaultError), blame("dag"):
        raise KeyError
