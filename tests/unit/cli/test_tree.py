"""Trees in text."""

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.daemon.cli import tree
from tidegate.schemas.dag import AllOf, AnyOf, Condition, DatasetRef
from tidegate.schemas.queries.datasets import PendingRow

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
A, B, C = DatasetRef("s://a"), DatasetRef("s://b"), DatasetRef("s://c")


def pending(uri: str, events: int = 1) -> dict[str, PendingRow]:
    return {uri: PendingRow(uri, events, NOON - timedelta(seconds=90))}


def test_branches_hang_below_their_label() -> None:
    drawn = list(tree.lines(("root", [("a", [("a1", ()), ("a2", ())]), ("b", [("b1", ())])])))

    assert drawn == ["root", "├── a", "│   ├── a1", "│   └── a2", "└── b", "    └── b1"]


def test_each_part_of_a_condition_says_whether_it_holds() -> None:
    condition = AllOf((A, AnyOf((B, C))))

    drawn = list(tree.lines(tree.condition_branch(condition, pending("s://b"), NOON)))

    assert drawn == [
        "○ all of",
        "├── ○ s://a  (nothing pending)",
        "└── ✓ any of",
        "    ├── ✓ s://b  (1 event pending for 1m30s)",
        "    └── ○ s://c  (nothing pending)",
    ]


def test_a_condition_that_holds_is_marked_as_a_whole() -> None:
    label, _ = tree.condition_branch(AllOf((A, B)), pending("s://a") | pending("s://b"), NOON)

    assert label == "✓ all of"


def test_of_several_events_the_oldest_one_has_waited_longest() -> None:
    label, _ = tree.condition_branch(A, pending("s://a", 3), NOON)

    assert label == "✓ s://a  (3 events, the oldest pending for 1m30s)"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (DatasetRef("s://a(1)"), "s://a(1)"),
        (AllOf((A, B)), "s://a & s://b"),
        (AnyOf((A, AllOf((B, C)))), "s://a | (s://b & s://c)"),
    ],
)
def test_a_condition_reads_as_its_author_wrote_it(condition: Condition, expected: str) -> None:
    assert tree.condition_text(condition) == expected


def test_a_problem_names_its_line_where_there_is_one() -> None:
    assert tree.problem("a.py", 3, "bad\n") == "a.py:3: bad\\n"
    assert tree.problem("a.py", None, "bad") == "a.py: bad"
