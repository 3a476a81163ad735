"""What is never contained passes every broad handler of the product."""

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.structure.imports import FOLDERS, ROOT, nodes
from tidegate.schemas.error import DagFaultError, blame

IN_CHILD_PROCESS = ROOT / "daemon/dagfiles/reasons.py"
PASSED_ON = {"FATAL", "NOT_CONTAINED"}


def broad_handlers(tree: Iterable[ast.AST]) -> Iterator[tuple[int, bool]]:
    """The line of each `except Exception`, and whether a handler before it raises the fatal errors again."""
    for node in tree:
        if isinstance(node, ast.Try | ast.TryStar):
            named: set[str] = set()
            for handler in node.handlers:
                names = {each.id for each in ast.walk(handler.type) if isinstance(each, ast.Name)} if handler.type else set()
                if "Exception" in names:
                    yield handler.lineno, bool(named & PASSED_ON)
                named |= names if isinstance(handler.body[-1], ast.Raise) else set()


def test_every_broad_handler_lets_the_fatal_errors_pass() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path != IN_CHILD_PROCESS]

    found = {f"{path.relative_to(ROOT)}:{line}": passes for path in files for line, passes in broad_handlers(nodes(path))}

    assert found
    swallowing = [place for place, passes in found.items() if not passes]
    assert swallowing == [], f"put `except FATAL: raise` before the broad handler: {swallowing}"


@pytest.mark.parametrize(("does", "passes"), [("raise", True), ("pass", False)])
def test_a_handler_that_swallows_the_fatal_errors_is_found(does: str, *, passes: bool) -> None:
    source = f"try: f()\nexcept FATAL: {does}\nexcept Exception: pass"

    assert list(broad_handlers(ast.walk(ast.parse(source)))) == [(3, passes)]


def test_a_decision_without_memory_is_no_fault_of_its_dag() -> None:
    with pytest.raises(MemoryError), blame("dag"):
        raise MemoryError

    with pytest.raises(DagFaultError), blame("dag"):
        raise KeyError
