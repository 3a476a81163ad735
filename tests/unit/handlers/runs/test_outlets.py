"""The dataset events of a task that succeeded."""

from typing import Any
from uuid import UUID

import pytest

from tests.shapes import NOW, graph, run_view, task
from tests.unit.handlers.simulated_run import SimulatedRun
from tests.unit.handlers.test_task_finished import ended, found
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers.runs.outlets import dataset_events, outlet_event_id
from tidegate.handlers.task_finished import decide
from tidegate.handlers.tasks.advance import Move
from tidegate.handlers.tasks.attempt_end import Produced
from tidegate.schemas.effect.task import OutletUpdated, TaskMoved
from tidegate.schemas.graph import element_index
from tidegate.schemas.run import MAX_PRODUCED_BYTES, MAX_PUBLISHED
from tidegate.schemas.state import TaskState
from tidegate.schemas.wire.envelope import decode
from tidegate.schemas.wire.event import MAX_ID_LENGTH, PRODUCER_SOURCE, DatasetUpdated, Kind, encode

ATTEMPT = UUID(int=7)
MAPPED = graph("a", task("m < a", over="a", outlets=("s://x", "s://y")))
ROWS = {"s://x": {"rows": 12}}
EVENTS = (DatasetUpdated(uri="s://p"), DatasetUpdated(uri="s://p", extra={"n": 1}))


def signed(extra: dict[str, Any], task_id: str = "a", **more: Any) -> dict[str, Any]:
    return {**extra, "tidegate": {"dag_id": "d", "run_id": "r1", "task_id": task_id, **more}}


def updates(outcome: str = "succeeded", **facts: Any) -> tuple[list[OutletUpdated], list[TaskMoved]]:
    """The dataset events and the moves after the end of an attempt whose task has the outlets x and y."""
    world = SimulatedRun(graph(task("a", outlets=("s://x", "s://y"))))
    world.admit("a")
    effects = well_formed(decide([ended(world.attempt("a"), outcome, **facts)], found(world)))
    return [e for e in effects if isinstance(e, OutletUpdated)], [e for e in effects if isinstance(e, TaskMoved)]


def test_an_attempt_gives_the_event_of_an_outlet_an_extra() -> None:
    events, _ = updates(outlets=ROWS)

    assert [(event.uri, event.extra) for event in events] == [("s://x", signed({"rows": 12})), ("s://y", signed({}))]


def test_an_attempt_publishes_further_events_by_ids_of_its_own() -> None:
    world = SimulatedRun(graph("a"))
    world.admit("a")
    attempt = world.attempt("a")

    effects = decide([ended(attempt, events=EVENTS)], found(world))

    assert [effect for effect in effects if isinstance(effect, OutletUpdated)] == [
        OutletUpdated("s://p", f"{attempt}/0", signed({}), NOW),
        OutletUpdated("s://p", f"{attempt}/1", signed({"n": 1}), NOW),
    ]


@pytest.mark.parametrize("outcome", ["failed", "killed", "lost", "skipped"])
def test_an_attempt_that_does_not_succeed_publishes_nothing(outcome: str) -> None:
    events, _ = updates(outcome, outlets=ROWS, events=EVENTS)

    assert events == []


def test_nothing_but_tidegate_names_the_producer() -> None:
    events, _ = updates(outlets={"s://x": {"tidegate": {"dag_id": "other"}}})

    assert events[0].extra == signed({})


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        pytest.param(
            {"events": (DatasetUpdated(uri="s://p"),) * (MAX_PUBLISHED + 1)},
            "the task published 1001 events; an attempt publishes at most 1000",
            id="many",
        ),
        pytest.param(
            {"outlets": {"s://x": {"text": "x" * MAX_PRODUCED_BYTES}}},
            "the events of the task have more than 262144 bytes; write the data elsewhere and give its location",
            id="large",
        ),
    ],
)
def test_a_task_with_too_many_events_fails(facts: dict[str, Any], reason: str) -> None:
    events, moves = updates(**facts)

    assert (events, [(move.event.state, move.event.reason) for move in moves]) == ([], [(TaskState.FAILED, reason)])


def test_a_run_that_tells_no_outlets_publishes_nothing() -> None:
    world = SimulatedRun(graph(task("a", outlets=("s://x",))), updates_outlets=False)
    world.admit("a")

    effects = decide([ended(world.attempt("a"), outlets=ROWS, events=EVENTS)], found(world))

    assert not [effect for effect in effects if isinstance(effect, OutletUpdated)]


def test_an_instance_of_a_mapped_task_updates_only_the_outlets_that_it_gives_an_extra() -> None:
    move = Move(element_index(1, 3), TaskState.SUCCESS, 1, produced=Produced(ATTEMPT, ROWS, EVENTS[:1]))

    assert list(dataset_events(run_view(), MAPPED, move, NOW)) == [
        OutletUpdated("s://x", "d/r1/m[3]/s://x", signed({"rows": 12}, "m", map_index=3), NOW),
        OutletUpdated("s://p", f"{ATTEMPT}/0", signed({}, "m", map_index=3), NOW),
    ]


def test_the_event_of_an_outlet_has_the_same_id_at_every_try() -> None:
    """A task that is cleared and succeeds again updates the dataset by the event that consumers know."""
    told = graph(task("a", outlets=("s://x",)))
    tries = [
        Move(0, TaskState.SUCCESS, try_number, produced=Produced(UUID(int=attempt), ROWS))
        for try_number, attempt in ((1, 7), (2, 8))
    ]

    ids = [event.event_id for move in tries for event in dataset_events(run_view(), told, move, NOW)]

    assert ids == ["d/r1/a/s://x"] * 2


def test_a_mapped_task_updates_its_outlets_once_when_all_instances_ended() -> None:
    events = dataset_events(run_view(), MAPPED, Move(1, TaskState.SUCCESS, 0), NOW)

    assert [(event.event_id, event.extra) for event in events] == [
        ("d/r1/m/s://x", signed({}, "m")),
        ("d/r1/m/s://y", signed({}, "m")),
    ]


@pytest.mark.parametrize(
    ("uri", "is_origin"),
    [
        pytest.param("x" * (MAX_ID_LENGTH - 7), True, id="as many characters as an id may have"),
        pytest.param("x" * (MAX_ID_LENGTH - 6), False, id="one character more"),
        pytest.param("港" * 339, True, id="as many bytes as an id may have"),
        pytest.param("港" * 339 + "x", False, id="one byte more"),
    ],
)
def test_the_id_of_an_outlets_event_is_its_origin_if_that_fits(uri: str, *, is_origin: bool) -> None:
    assert (outlet_event_id("d", "r1", "a", uri) == f"d/r1/a/{uri}") is is_origin


@pytest.mark.parametrize(("name", "uri"), [("load", f"lake://{'o' * 1000}"), ("港" * 170, "lake://o")])
def test_the_id_of_an_outlets_event_with_long_names_is_its_own_and_one_that_daemons_accept(name: str, uri: str) -> None:
    first, again, other = (outlet_event_id(name, "r1", name, outlet) for outlet in (uri, uri, f"{uri}2"))

    assert (first == again, first == other) == (True, False)
    headers = [("ce_source", PRODUCER_SOURCE.encode()), ("ce_id", first.encode())]
    assert decode(Kind.DATASET_UPDATED, headers, encode({"uri": uri}))[0].id == first
