"""The page for operators has each warning and error that a daemon or `tidegate web` logs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOGGING = {"warning", "error", "report", "once", "_warn_once", "RepeatedFaults", "DutyFailures", "Containment", "_Kind"}
"""The calls that get the name of an entry of the log, or what later logs it."""

_NAME = re.compile(r"[a-z]+(?:_[a-z]+)+")


def test_the_page_has_each_warning_and_error() -> None:
    assert sorted(_logged() - _on_the_page()) == [], "add them to the table of daemon/docs/production.md#logs"


def test_each_entry_of_the_page_is_one_that_the_code_has() -> None:
    texts = {node.value for node in _nodes() if isinstance(node, ast.Constant)}

    assert sorted(_on_the_page() - texts) == []


def _on_the_page() -> set[str]:
    """The names in the first column, and names of entries that a row explains beside its own."""
    (section,) = re.findall(
        r"^## Logs$(.*?)(?=^## |\Z)", (ROOT / "daemon/docs/production.md").read_text(), re.MULTILINE | re.DOTALL
    )
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", row.split(" | ")[0])}


def _logged() -> set[str]:
    calls = [node for node in _nodes() if isinstance(node, ast.Call) and _called(node) in LOGGING]
    given = [argument.value for call in calls for argument in call.args if isinstance(argument, ast.Constant)]
    return {name for name in given if isinstance(name, str) and _NAME.fullmatch(name)}


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _nodes() -> Iterator[ast.AST]:
    for path in (ROOT / "daemon").rglob("*.py"):
        if "cli" not in path.parts:
            yield from ast.walk(ast.parse(path.read_text()))
