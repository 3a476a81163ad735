"""What a new version of a DAG changed."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def diff(before: list[str], after: list[str]) -> list[str] | None:
    at = datetime(2026, 11, 24, tzinfo=UTC)
    one, two = (StoredVersion(number, at, "d.py", "\n".join(lines), {}) for number, lines in ((1, before), (2, after)))
    return diff_of(one, two)


def test_the_lines_of_the_source_are_compared() -> None:
    assert diff(["a", "b"], ["a", "c"]) == ["--- version 1", "+++ version 2", "@@ -1,2 +1,2 @@", " a", "-b", "+c"]
    assert diff(["a"], ["a"]) == []


lines = st.lists(st.sampled_from("abc"), max_size=12)


@given(lines, lines, lines, lines)
def test_only_the_part_that_changed_is_compared(head: list[str], old: list[str], new: list[str], tail: list[str]) -> None:
    """A patch of it makes the new source of the old one."""
    before, after = [*head, *old, *tail], [*head, *new, *tail]
    found = diff(before, after) or []
    made, at = list[str](), 0
    for line in found[2:]:
        if line.startswith("@@"):
            ((start, length),) = re.findall(r"^@@ -(\d+)(?:,(\d+))? ", line)
            begin = int(start) - (length != "0")
            made, at = made + before[at:begin], begin
        else:
            assert line[0] == "+" or before[at] == line[1:]
            made, at = made + [line[1:]] * (line[0] != "-"), at + (line[0] != "+")

    assert made + before[at:] == after


def test_a_large_source_costs_no_more_than_its_changed_part() -> None:
    before = [f"line {number}" for number in range(20_000)]
    one = [*before[:10_000], "changed", *before[10_001:]]

    assert (diff(before, one) or [])[2:] == [
        "@@ -9998,7 +9998,7 @@",
        *(f" line {n}" for n in (9997, 9998, 9999)),
        "-line 10000",
        "+changed",
        *(f" line {n}" for n in (10001, 10002, 10003)),
    ]
    assert diff(before, [line if number % 2 else f"{line} changed" for number, line in enumerate(before)]) is None
