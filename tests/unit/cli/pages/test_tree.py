"""Trees in text."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.shapes import task
from tidegate.daemon.cli.pages import tree
from tidegate.daemon.read_model.condition import condition_branch, condition_text, leaf_text, schedule_text
from tidegate.daemon.read_model.inputs import InputRow
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef, Leaf, NOf, PatternRef
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.timetable.spec import Cron, Timetable

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
A, B, C = DatasetRef("s://a"), DatasetRef("s://b"), DatasetRef("s://c")


def pending(leaf: Leaf, events: int = 1) -> dict[Leaf, InputRow]:
    return {leaf: InputRow(leaf_text(leaf), events, NOON - timedelta(seconds=90))}


def test_branches_are_drawn_below_their_label() -> None:
    drawn = list(tree.lines(("root", [("a", [("a1", ()), ("a2", ())]), ("b", [("b1", ())])])))

    assert drawn == ["root", "├── a", "│   ├── a1", "│   └── a2", "└── b", "    └── b1"]


def test_each_part_of_a_condition_has_a_mark() -> None:
    condition = AllOf((A, AnyOf((B, C))))

    drawn = list(tree.lines(condition_branch(condition, pending(B), NOON)))

    assert drawn == [
        "○ all of",
        "├── ○ s://a  (nothing pending)",
        "└── ✓ any of",
        "    ├── ✓ s://b  (1 event pending for 1m30s)",
        "    └── ○ s://c  (nothing pending)",
    ]


def test_an_input_is_drawn_with_its_filter_and_expiry() -> None:
    few, days = DatasetRef("s://a", "rows < 9", 5400), PatternRef("s://days/*")

    drawn = list(tree.lines(condition_branch(NOf(2, (few, days, A)), pending(days), NOON)))

    assert drawn == [
        "○ 2 of",
        "├── ○ s://a where rows < 9, expires after 1h30m  (nothing pending)",
        "├── ✓ s://days/*  (1 event pending for 1m30s)",
        "└── ○ s://a  (nothing pending)",
    ]


def test_a_condition_that_holds_is_marked_as_a_whole() -> None:
    label, _ = condition_branch(AllOf((A, B)), pending(A) | pending(B), NOON)

    assert label == "✓ all of"


def test_of_several_events_the_age_of_the_oldest_is_shown() -> None:
    label, _ = condition_branch(A, pending(A, 3), NOON)

    assert label == "✓ s://a  (3 events, the oldest pending for 1m30s)"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (DatasetRef("s://a(1)"), "s://a(1)"),
        (AllOf((A, B)), "s://a & s://b"),
        (AnyOf((A, AllOf((B, C)))), "s://a | (s://b & s://c)"),
        (NOf(2, (A, AnyOf((B, C)), DatasetRef("s://a", "n"))), "2 of (s://a, (s://b | s://c), s://a[n])"),
    ],
)
def test_a_condition_reads_as_its_author_wrote_it(condition: Condition, expected: str) -> None:
    assert condition_text(condition) == expected


@pytest.mark.parametrize(
    ("condition", "timetable", "expected"),
    [
        (None, None, ""),
        (A, None, "s://a"),
        (None, Cron(("0 3 * * *",), "Europe/Zurich"), "cron 0 3 * * * Europe/Zurich"),
        (AllOf((A, B)), Cron(("0 3 * * *",)), "s://a & s://b, or cron 0 3 * * * UTC"),
    ],
)
def test_a_schedule_is_of_datasets_or_of_time_or_of_both(
    condition: Condition | None, timetable: Timetable | None, expected: str
) -> None:
    assert schedule_text(condition, timetable) == expected


@pytest.mark.parametrize(
    ("line", "expected"), [("x", ""), ("x < a b", "a, b"), ("x:one_failed < a b", "a, b (one_failed)"), ("x:one_failed", "")]
)
def test_a_task_names_a_trigger_rule_other_than_all_success(line: str, expected: str) -> None:
    assert tree.after_text(task(line)) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (task("x"), ""),
        (task("x", is_setup=True), "setup"),
        (task("x < a b", teardown_of=("a", "b")), "teardown of a, b"),
        (task("x < a", over="a"), "for each of a"),
        (task("x < a", over="a", is_setup=True), "setup, for each of a"),
    ],
)
def test_setups_teardowns_and_mapped_tasks_are_marked(made: BaseTask, expected: str) -> None:
    assert tree.role_text(made) == expected


def test_a_group_stands_where_its_first_task_would() -> None:
    lines = ("a", "in.b", "c", "in.deep.d", "in.e", "other.f", "lone.deep.g")
    tasks = [task(line, group=line.rpartition(".")[0]) for line in lines]

    drawn = list(tree.lines(("dag", tree.task_branches(tasks, lambda each: each.task_id))))

    assert drawn == [
        "dag",
        "├── a",
        "├── group in",
        "│   ├── in.b",
        "│   ├── group in.deep",
        "│   │   └── in.deep.d",
        "│   └── in.e",
        "├── c",
        "├── group other",
        "│   └── other.f",
        "└── group lone.deep",
        "    └── lone.deep.g",
    ]


def test_an_inner_group_may_begin_before_the_outer_one() -> None:
    tasks = [task("in.deep.a", group="in.deep"), task("in.b", group="in")]

    drawn = list(tree.lines(("dag", tree.task_branches(tasks, lambda each: each.task_id))))

    assert drawn == ["dag", "└── group in", "    ├── group in.deep", "    │   └── in.deep.a", "    └── in.b"]


def test_a_problem_names_its_line_where_there_is_one() -> None:
    assert tree.problem("a.py", 3, "bad\n") == "a.py:3: bad\\n"
    assert tree.problem("a.py", None, "bad") == "a.py: bad"
