"""What a new version of a DAG changed."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate.daemon.read_model.version import changes_of, diff_of
from tidegate.schemas.queries.grid import StoredVersion


def spec(*tasks: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"dag_id": "d", **options, "tasks": list(tasks)}


JOIN: dict[str, Any] = {"task_id": "join", "kind": "command", "retries": 1}


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (spec(JOIN), spec(JOIN), []),
        (spec(JOIN, max_active_runs=2), spec(JOIN), ["max active runs 2 → default"]),
        (spec(JOIN), spec({**JOIN, "retries": 3}), ["task join: retries 1 → 3"]),
        (spec(JOIN), spec({"task_id": "load"}), ["task join: removed", "task load: added"]),
        (spec(JOIN), spec({**JOIN, "upstream": ["a"]}), ['task join: upstream default → ["a"]']),
        ({}, spec(tags=["x"]), ['dag id default → "d"', 'tags default → ["x"]']),
    ],
)
def test_a_change_is_said_by_option_and_task(before: dict[str, Any], after: dict[str, Any], changes: list[str]) -> None:
    assert list(changes_of(before, after)) == changes


def test_the_lines_of_the_source_are_compared() -> None:
    at = datetime(2026, 11, 24, tzinfo=UTC)
    before, after = (StoredVersion(number, at, "d.py", source, {}) for number, source in ((1, "a\nb\n"), (2, "a\nc\n")))

    assert diff_of(before, after) == ["--- version 1", "+++ version 2", "@@ -1,2 +1,2 @@", " a", "-b", "+c"]
