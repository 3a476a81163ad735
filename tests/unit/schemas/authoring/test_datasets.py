"""Conditions over datasets in the authoring API."""

from collections.abc import Callable
from typing import Any

import pytest

from tidegate import Dag, DagError, Dataset
from tidegate.schemas.conditions.condition import MAX_NESTING, AllOf, AnyOf, Condition, DatasetRef, describe_condition, nesting

# Typed as anything: most of what follows is what type checkers refuse.
a: Any = Dataset("lake://a")
b: Any = Dataset("lake://b")
c: Any = Dataset("lake://c")
A, B, C = DatasetRef("lake://a"), DatasetRef("lake://b"), DatasetRef("lake://c")


@pytest.mark.parametrize(
    ("schedule", "condition"),
    [
        (lambda: a, A),
        (lambda: a & b, AllOf((A, B))),
        (lambda: a | b, AnyOf((A, B))),
        (lambda: a & b & c, AllOf((A, B, C))),
        (lambda: a & (b & c), AllOf((A, B, C))),
        (lambda: a | b | c, AnyOf((A, B, C))),
        (lambda: a & (b | c), AllOf((A, AnyOf((B, C))))),
        (lambda: (a & b) | c, AnyOf((AllOf((A, B)), C))),
        (lambda: [a, b], AllOf((A, B))),
        (lambda: (a, b), AllOf((A, B))),
        (lambda: [a], A),
        (lambda: [a | b, c], AllOf((AnyOf((A, B)), C))),
        (lambda: None, None),
    ],
)
def test_a_schedule_means_the_condition_it_spells(schedule: Callable[[], Any], condition: Condition | None) -> None:
    assert Dag("d", schedule=schedule()).spec().schedule == condition


@pytest.mark.parametrize("wrong", [lambda: a and b, lambda: a or b, lambda: not a, lambda: 1 if a else 2])
def test_a_dataset_has_no_truth_value(wrong: Callable[[], object]) -> None:
    with pytest.raises(DagError, match=r"^datasets are combined with & and \|, not with `and`, `or`, `not` or `if`$"):
        wrong()


@pytest.mark.parametrize(
    ("wrong", "operator"),
    [
        (lambda: a ^ b, "^"),
        (lambda: a + b, "+"),
        (lambda: a - b, "-"),
        (lambda: a * 2, "*"),
        (lambda: 2 * a, "*"),
        (lambda: a / b, "/"),
        (lambda: ~a, "~"),
        (lambda: -a, "-"),
        (lambda: +a, "+"),
        (lambda: a < b, "<"),
        (lambda: a >= b, ">="),
        (lambda: a >> b, ">>"),
        (lambda: a << b, "<<"),
    ],
)
def test_another_operator_is_refused_by_name(wrong: Callable[[], object], operator: str) -> None:
    with pytest.raises(DagError) as caught:
        wrong()

    assert str(caught.value) == f"{operator} is not an operator on datasets; combine them with & (and) and | (or)"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: a & "lake://b", "only datasets can be combined with &, not 'lake://b'"),
        (lambda: a | [b], "only datasets can be combined with |, not [Dataset('lake://b')]"),
        (lambda: [a] & b, "only datasets can be combined with &"),
        (lambda: None | a, "only datasets can be combined with |"),
    ],
)
def test_only_datasets_can_be_combined(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(DagError) as caught:
        wrong()

    assert str(caught.value) == message


@pytest.mark.parametrize("uri", ["", "two words", "line\n", "lake://ä", "x" * 2049, None, 5])
def test_a_uri_that_cannot_be_is_refused(uri: Any) -> None:
    message = r"^Dataset\(.*\): a URI is 1 to 2048 printable ASCII characters without spaces, like lake://flights$"
    with pytest.raises(DagError, match=message):
        Dataset(uri)
    with pytest.raises(DagError, match=message):
        Dataset(uri, name="Flights")


@pytest.mark.parametrize("schedule", [5, [], [a, None], {a}, [a, "@daily"]])
def test_a_schedule_of_another_type_is_refused(schedule: Any) -> None:
    with pytest.raises(DagError) as caught:
        Dag("d", schedule=schedule)

    assert str(caught.value) == (
        "DAG 'd': schedule is a dataset, datasets combined with & and |, a list of datasets, a time such as '@daily' or"
        f" '0 3 * * *', or None; not {schedule!r}"
    )


@pytest.mark.parametrize("schedule", [["lake://a"], a.uri])
def test_the_uri_of_a_dataset_is_no_schedule(schedule: Any) -> None:
    with pytest.raises(DagError, match=r"DAG 'd': 'lake://a' is the URI of a dataset; write schedule=Dataset\('lake://a'\)"):
        Dag("d", schedule=schedule)


def nested(levels: int) -> Any:
    schedule = a
    for level in range(1, levels):
        schedule = schedule & b if level % 2 else schedule | c
    return schedule


def test_a_schedule_nested_too_deep_is_refused() -> None:
    deepest = Dag("d", schedule=nested(MAX_NESTING)).spec().schedule

    assert deepest is not None
    assert nesting(deepest) == MAX_NESTING
    with pytest.raises(DagError, match=r"^DAG 'd': its schedule is nested deeper than 64 levels$"):
        Dag("d", schedule=nested(MAX_NESTING + 1))


def test_nesting_is_counted_without_recursion() -> None:
    condition: Condition = A
    for _ in range(100_000):
        condition = AllOf((condition,))

    assert nesting(condition) == 100_001


def test_datasets_with_the_same_uri_are_the_same() -> None:
    again = Dataset("lake://a")

    assert {a, again} == {again}
    assert (a == again, a == b, a == "lake://a") == (True, False, False)


def test_a_condition_reads_as_it_is_written() -> None:
    assert describe_condition((a & (b | c)).condition) == "(lake://a & (lake://b | lake://c))"
