"""The tree below an event."""

from datetime import UTC, datetime

from tidegate.daemon.read_model.event import FOLLOWED, Descent, EventLife
from tidegate.schemas.queries.datasets import EventRow, OutcomeRow
from tidegate.schemas.wire.event import Producer

AT = datetime(2026, 1, 1, tzinfo=UTC)


def event(number: int, maker: tuple[str, str] = ("", "")) -> EventRow:
    producer = Producer(dag_id=maker[0], run_id=maker[1], task_id="t") if maker[0] else None
    return EventRow(number, f"s://{number}", "p", str(number), AT, AT, {}, producer)


def consumed(number: int, dag_id: str, run_id: str = "r") -> OutcomeRow:
    return OutcomeRow(number, dag_id, "consumed", run_id, None)


def tree(life: EventLife) -> object:
    """Of each event by its number: for each DAG, the events below it, or `elsewhere`."""
    if life.is_cut:
        return "cut"
    return {
        row.outcome.dag_id: {made.event.number: tree(made) for made in row.events} if row.is_followed else "elsewhere"
        for row in life.reached
    }


def test_a_run_of_two_events_stands_once_below_the_nearest() -> None:
    """1 starts a and b, whose events 2 and 3 start one run of c; 1 is also consumed by it."""
    descent = Descent()
    first = descent.enter([event(1)], {1: [consumed(1, "a"), consumed(1, "b")]})
    descent.follow(first, [event(2, ("a", "r")), event(3, ("b", "r"))])
    second = descent.enter([event(2), event(3)], {2: [consumed(2, "c")], 3: [consumed(3, "c")]})
    descent.follow(second, [event(4, ("c", "r"))])

    assert (first, second) == ([("a", "r"), ("b", "r")], [("c", "r")])
    assert tree(descent.life(event(1))) == {"a": {2: {"c": {4: "cut"}}}, "b": {3: {"c": "elsewhere"}}}


def test_a_run_whose_event_starts_it_again_does_not_repeat() -> None:
    descent = Descent()
    descent.follow(descent.enter([event(1)], {1: [consumed(1, "a")]}), [event(2, ("a", "r"))])

    assert descent.enter([event(2)], {2: [consumed(2, "a")]}) == []
    assert tree(descent.life(event(1))) == {"a": {2: {"a": "elsewhere"}}}


def test_only_so_many_runs_of_a_generation_are_followed() -> None:
    descent = Descent()
    runs = descent.enter([event(1)], {1: [consumed(1, f"d{n:04}") for n in range(FOLLOWED + 2)]})
    descent.follow(runs, [])

    assert len(runs) == FOLLOWED
    assert [row.is_followed for row in descent.life(event(1)).reached] == [True] * FOLLOWED + [False] * 2
