"""The order of tasks: topological, stable, without cycles."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import DagError
from tidegate.schemas.authoring import validation
from tidegate.schemas.authoring.assembly import find_cycle, topological_order
from tidegate.schemas.authoring.validation import validate_dag
from tidegate.schemas.conditions.condition import AllOf, Condition, DatasetRef
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask
from tidegate.schemas.timetable.spec import Dates

FIRST = datetime.min.replace(tzinfo=UTC)
A = DatasetRef("lake://a")


@st.composite
def graphs(draw: st.DrawFn) -> Mapping[str, Sequence[str]]:
    """Any directed graph over a few tasks."""
    ids = [f"t{number}" for number in range(draw(st.integers(0, 8)))]
    return {task_id: draw(st.lists(st.sampled_from(ids), unique=True)) for task_id in ids}


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        ({}, ""),
        ({"a": "", "b": "", "c": ""}, "abc"),
        ({"a": "b", "b": "c", "c": ""}, "cba"),
        ({"a": "", "b": "a", "c": "a", "d": "bc"}, "abcd"),
        ({"d": "bc", "c": "a", "b": "a", "a": ""}, "acbd"),
        ({"b": "", "c": "z", "a": "", "z": ""}, "bazc"),
    ],
)
def test_tasks_follow_their_upstream_and_otherwise_the_order_of_definition(upstream: Mapping[str, str], expected: str) -> None:
    assert topological_order(upstream) == tuple(expected)


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        ({"a": "", "b": "a"}, ""),
        ({"a": "a"}, "a"),
        ({"a": "b", "b": "a"}, "ab"),
        ({"a": "c", "b": "a", "c": "b"}, "abc"),
        ({"x": "", "z": "c", "a": "cx", "b": "a", "c": "b"}, "abc"),
        ({"z": "a", "a": "b", "b": "a"}, "ab"),
    ],
)
def test_a_cycle_is_named_in_the_order_its_tasks_would_run(upstream: Mapping[str, str], expected: str) -> None:
    assert find_cycle(upstream) == tuple(expected)


@given(graphs())
def test_either_every_task_has_its_place_or_there_is_a_cycle(upstream: Mapping[str, Sequence[str]]) -> None:
    ordered, path = topological_order(upstream), find_cycle(upstream)

    assert (len(ordered) == len(upstream)) == (path == ())
    assert all(set(upstream[task_id]) <= set(ordered[:position]) for position, task_id in enumerate(ordered))
    assert all(above in upstream[below] for above, below in zip(path, path[1:] + path[:1], strict=True))


def test_a_long_chain_defined_backwards_is_ordered_in_linear_time() -> None:
    reads = []

    class Upstream(tuple[str, ...]):
        def __iter__(self) -> Iterator[str]:
            reads.append(self)
            return super().__iter__()

    upstream = {str(number): Upstream([str(number + 1)]) for number in range(9_999)} | {"9999": Upstream()}

    ordered = topological_order(upstream)

    assert ordered == tuple(str(number) for number in range(9_999, -1, -1))
    assert len(reads) <= len(upstream)


def deep(levels: int = 64) -> Condition:
    condition: Condition = A
    for _ in range(levels):
        condition = AllOf((condition,))
    return condition


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (DagSpec(dag_id="d", tasks=(EmptyTask(task_id="a"), EmptyTask(task_id="a"))), "DAG 'd': task_id 'a' is used twice"),
        (DagSpec(dag_id="d", tasks=(EmptyTask(task_id="a", upstream=("x",)),)), "task 'a': no task 'x' comes before it"),
        (
            DagSpec(dag_id="d", tasks=(EmptyTask(task_id="a", upstream=("b",)), EmptyTask(task_id="b"))),
            "task 'a': no task 'b' comes before it",
        ),
        (
            DagSpec(dag_id="d", tasks=(EmptyTask(task_id="a"), CommandTask(task_id="b", argv=("x",), over="a"))),
            "DAG 'd', task 'b': it is mapped over 'a', which does not come directly before it",
        ),
        (
            DagSpec(dag_id="d", tasks=(EmptyTask(task_id="a"), EmptyTask(task_id="b", upstream=("a",), over="a"))),
            "DAG 'd', task 'b': an empty task does nothing with an element and cannot be mapped",
        ),
        (
            DagSpec(dag_id="d", tasks=(EmptyTask(task_id="a"), EmptyTask(task_id="b", teardown_of=("c", "a")))),
            "DAG 'd', task 'b': its setup 'a' does not come directly before it",
        ),
        (DagSpec(dag_id="d", schedule=deep()), "nested deeper than 64 levels"),
        (DagSpec(dag_id="d", start_date=FIRST), r"DAG 'd': start_date 0001-01-01T00:00:00\+00:00 is out of range"),
        (
            DagSpec(dag_id="d", tasks=(EmptyTask(task_id="a", end_date=FIRST),)),
            r"DAG 'd', task 'a': end_date 0001-01-01T00:00:00\+00:00 is out of range",
        ),
        (DagSpec(dag_id="d", timetable=Dates((FIRST,))), r"DAG 'd': the date 0001-01-01T00:00:00\+00:00 is out of range"),
    ],
)
def test_a_serialised_dag_with_invalid_tasks_is_refused(spec: DagSpec, complaint: str) -> None:
    with pytest.raises(DagError, match=complaint):
        validate_dag(spec)


@pytest.mark.parametrize(
    "spec",
    [
        DagSpec(dag_id="d", schedule=A, tasks=(EmptyTask(task_id="a"), EmptyTask(task_id="b", upstream=("a",)))),
        DagSpec(dag_id="d", tasks=(EmptyTask(task_id="a"), CommandTask(task_id="b", argv=("x",), upstream=("a",), over="a"))),
        DagSpec(dag_id="d", tasks=(EmptyTask(task_id="a"), EmptyTask(task_id="b", upstream=("a",), teardown_of=("a",)))),
        DagSpec(dag_id="d", schedule=deep(63)),
    ],
    ids=["in order", "mapped", "a teardown", "as deep as possible"],
)
def test_a_sound_serialised_dag_is_accepted(spec: DagSpec) -> None:
    validate_dag(spec)


def test_a_dag_with_more_tasks_than_possible_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_TASKS", 2)
    tasks = tuple(EmptyTask(task_id=name) for name in "abc")

    validate_dag(DagSpec(dag_id="d", tasks=tasks[1:]))
    with pytest.raises(DagError, match=r"^DAG 'd' has 3 tasks; at most 2 are possible: make several DAGs of it$"):
        validate_dag(DagSpec(dag_id="d", tasks=tasks))
