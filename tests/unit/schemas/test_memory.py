"""What a process remembers has a bound."""

import gc
from weakref import ref

import pytest

from tests.shapes import NOW, graph
from tidegate.schemas.graph import Graph, per_graph
from tidegate.schemas.queries.memory import Bounded
from tidegate.schemas.queries.pending import QueuedEvent, within


def test_the_oldest_are_forgotten_for_a_new_value() -> None:
    memory: Bounded[str, int] = Bounded(10)

    for number, (key, weight) in enumerate([("a", 4), ("b", 4), ("c", 3), ("b", 6)]):
        memory.remember(key, number, weight)

    assert memory == {"c": 2, "b": 3}


def test_a_value_above_the_bound_is_remembered_alone() -> None:
    memory: Bounded[str, int] = Bounded(10)

    for key, weight in [("a", 4), ("huge", 11), ("b", 1)]:
        memory.remember(key, weight, weight)

    assert memory == {"b": 1}


def test_a_derived_value_is_made_once_and_freed_with_its_graph() -> None:
    made = []

    @per_graph
    def tasks(dag: Graph, more: int) -> int:
        made.append(more)
        return len(dag.nodes) + more

    dag = graph("a", "b")
    assert [tasks(dag, 1), tasks(dag, 1), tasks(dag, 2)] == [3, 3, 4]
    assert made == [1, 2]
    there = ref(dag)
    del dag
    gc.collect()
    assert there() is None


def row(id_: int, size: int, dataset: int = 1) -> QueuedEvent:
    return QueuedEvent(dataset, id_, f"s://{dataset}", NOW, NOW, size)


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        pytest.param([row(1, 4), row(2, 6)], [1, 2], id="all, up to the bound"),
        pytest.param([row(1, 4), row(2, 5), row(3, 2)], [1, 2], id="the oldest"),
        pytest.param([row(1, 11), row(2, 1)], [1], id="one above the bound"),
        pytest.param([row(1, 4), row(2, 4), row(3, 4), row(4, 4, dataset=2)], [1, 4], id="first the oldest of each dataset"),
        pytest.param([], [], id="none"),
    ],
)
def test_as_many_events_are_read_as_have_a_number_of_bytes(rows: list[QueuedEvent], kept: list[int]) -> None:
    assert [found.dataset_event_id for found in within(rows, 10)] == kept
