"""The limit of events per run: which events it leaves, and what follows."""

from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, A, B
from tests.unit.handlers.event_driven_dags import Outcome, at, by, consumer, event, expiring, scheduled, timed
from tidegate.handlers.scheduling.condition import Satisfied
from tidegate.handlers.scheduling.read_plan import needs_more_events, with_more_events
from tidegate.handlers.scheduling.run_size import LimitedRun, limit_events
from tidegate.schemas.conditions.condition import AllOf, AnyOf, DatasetRef, PatternRef
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.read_plan import MAX_READ_BYTES, MAX_READ_EVENTS, EventPlan, ReadPlan
from tidegate.schemas.timetable.spec import Dates
from tidegate.schemas.view import DagView

BOTH = AllOf((A, B))
MANY = tuple(event(id_) for id_ in range(1, 7))
LARGE, SMALL = DatasetRef("s://a", "n > 0"), DatasetRef("s://a", "n == 0")


def limited(condition: Any, *events: Any, most: int = 3, more: int = 0, **facts: Any) -> DagView:
    newest = max((each.arrived_at for each in events), default=NOW) if more else None
    return consumer(condition, *events, run_events=most, more_pending=more, **{"newest_at": newest, **facts})


def runs_of(done: Outcome) -> list[tuple[list[int], int]]:
    """The events of each run, and how many its limit left."""
    left = [effect.events_left for effect in done.effects if isinstance(effect, InsertRun)]
    return list(zip(done.runs, left, strict=True))


@pytest.mark.parametrize(
    ("dag", "runs"),
    [
        pytest.param(limited(A, *MANY[:3]), [([1, 2, 3], 0)], id="at the limit"),
        pytest.param(limited(A, *MANY[:3], more=40), [([1, 2, 3], 40)], id="more were not read"),
        pytest.param(limited(A, *MANY[:2], more=40), [([1, 2], 40)], id="fewer than the limit were left to be accepted"),
        pytest.param(limited(AnyOf((A, B)), *MANY, event(7, "b"), more=1), [([1, 2, 7], 5)], id="the oldest of each dataset"),
        pytest.param(limited(BOTH, *MANY, event(7, "b"), more=1, most=1), [([1, 7], 6)], id="more inputs than the limit"),
        pytest.param(limited(PatternRef("s://*"), event(1, "b"), *MANY[1:]), [([1, 2, 3], 3)], id="the oldest of a pattern"),
        pytest.param(
            limited(AllOf((LARGE, SMALL)), *(event(id_, n=id_) for id_ in range(1, 6)), event(6, n=0)),
            [([1, 2, 6], 3)],
            id="the oldest of each filter",
        ),
        pytest.param(
            limited(A, event(1, happened=-60), *(event(id_) for id_ in range(2, 7)), timing=timed(within=5)),
            [([2, 3, 4], 2)],
            id="what is superseded is not left",
        ),
        pytest.param(limited(A, *MANY, mode="each", most=1, event_run_ids=(101,), more=9), [([1], 0), ([2], 0)], id="one each"),
    ],
)
def test_a_run_consumes_the_oldest_events(dag: DagView, runs: list[tuple[list[int], int]]) -> None:
    assert runs_of(scheduled(dag)) == runs


def test_a_tick_consumes_as_many() -> None:
    dag = limited(BOTH, *MANY, event(7, "b"), timetable=Dates((NOW,)), together=True, missed="all", timed_run_ids=(101,))

    assert runs_of(scheduled(msgspec.structs.replace(dag, timed_since=at(-1)))) == [([1, 2, 7], 4)]


def test_each_tick_consumes_the_oldest_of_each_filter() -> None:
    events = [event(id_, n=n, arrived=-30) for id_, n in enumerate((1, 2, 3, 4, 5, 0, 0), 1)]
    facts: dict[str, Any] = {"timetable": Dates((at(-10), at(-5))), "missed": "all", "start_date": at(-99)}

    done = scheduled(limited(AllOf((LARGE, SMALL)), *events, together=True, timed_run_ids=(101, 102), **facts))

    assert runs_of(done) == [([1, 2, 6], 4), ([3, 4, 7], 1)]


def test_events_are_left_only_by_the_limit() -> None:
    satisfied = Satisfied(MANY[:3])

    assert limit_events(limited(A, *MANY), satisfied) == LimitedRun(satisfied, 0)


@pytest.mark.parametrize(
    ("dag", "wakeup"),
    [
        pytest.param(limited(A, *MANY[:3], more=1), 0, id="a run consumed what was read"),
        pytest.param(limited(BOTH, *MANY[:3], more=1), None, id="nothing was consumed"),
        pytest.param(limited(A, *MANY[:3]), None, id="everything was read"),
        pytest.param(limited(B, *MANY[:3], more=1), 0, id="all that was read is discarded"),
        pytest.param(limited(B, *MANY[:3], more=1, is_paused=True), 0, id="it is discarded in a pause, too"),
        pytest.param(limited(A, *MANY, timing=timed(within=5)), 0, id="the limit left some of what was read"),
        pytest.param(limited(AnyOf((A, B)), *MANY[:3], event(7, "b")), 0, id="the limit left some, and all was read"),
        pytest.param(limited(AllOf((A, B)), *MANY[:3], event(7, "b")), None, id="what the limit left does not suffice"),
    ],
)
def test_the_rest_is_looked_at_at_once(dag: DagView, wakeup: float | None) -> None:
    assert scheduled(dag).wakeup == wakeup


def test_quiet_counts_from_the_newest_event() -> None:
    dag = limited(A, *MANY, more=1, timing=timed(quiet_for=5), newest_at=at(3))

    assert (scheduled(dag, 7).runs, scheduled(dag, 7).wakeup, scheduled(dag, 8).runs) == ([], 8, [[1, 2, 3]])


def test_late_inputs_that_the_limit_leaves_are_late_still() -> None:
    dag = limited(BOTH, *MANY, timing=by("run_anyway", after=5))

    first = scheduled(dag, 6)
    last = scheduled(msgspec.structs.replace(dag, pending=MANY[3:]), 6)

    assert (runs_of(first), first.wakeup) == ([([1, 2, 3], 3)], 6)
    assert first.clock is not None
    assert first.clock.deadline_at is None
    assert last.clock is not None
    assert (runs_of(last), last.clock.deadline_at) == ([([4, 5, 6], 0)], at(5))


def test_the_rest_of_late_inputs_is_skipped_too() -> None:
    dag = limited(BOTH, *MANY[:3], more=3, timing=by("skip", after=5))

    first = scheduled(dag, 6)
    last = scheduled(msgspec.structs.replace(dag, pending=MANY[3:], more_pending=0), 6)

    assert (list(first.discarded.values()), first.wakeup) == ([[1, 2, 3]], 6)
    assert first.clock is not None
    assert first.clock.deadline_at is None
    assert last.clock is not None
    assert (list(last.discarded.values()), last.clock.deadline_at) == ([[4, 5, 6]], at(5))


def test_no_deadline_is_missed_while_more_events_are_to_be_read() -> None:
    dag = limited(AllOf((expiring("a", 1), B)), *MANY, more=1, timing=by("skip", after=5), due_at=NOW)

    done = scheduled(dag, 6)

    assert (done.noted, done.wakeup) == ([], 6)


@pytest.mark.parametrize(
    ("dag", "needs"),
    [
        pytest.param(limited(AllOf((LARGE, SMALL)), event(1, n=1), more=1), True, id="an input may be among the rest"),
        pytest.param(limited(AllOf((LARGE, SMALL)), event(1, n=1), event(2, n=2), more=1), True, id="of the same dataset"),
        pytest.param(limited(AllOf((LARGE, SMALL)), event(1, n=1)), False, id="everything was read"),
        pytest.param(limited(AllOf((LARGE, SMALL)), event(1, n=1), event(2, n=0), more=1), False, id="they are met"),
        pytest.param(limited(AllOf((LARGE, SMALL)), event(1, n=-1), more=1), False, id="rejected events go first"),
        pytest.param(limited(BOTH, event(1), more=1), False, id="the condition inspects no events"),
        pytest.param(limited(AllOf((expiring("a", 9), B)), *MANY[:2], more=1), False, id="a dataset has no event"),
        pytest.param(limited(AllOf((expiring("a", 9), B)), event(1), more=1), True, id="perhaps one was too large to be read"),
        pytest.param(limited(LARGE, event(1, n=-1), mode="each", more=1), False, id="one run for each"),
        pytest.param(limited(BOTH, event(1), event(2, "b", arrived=9), more=1, timing=timed(within=5)), True, id="no window"),
    ],
)
def test_more_events_are_read_where_the_oldest_do_not_suffice(dag: DagView, needs: bool) -> None:
    assert needs_more_events(dag, NOW) == needs


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((3, 5), (12, 20), id="four times"),
        pytest.param((MAX_READ_EVENTS // 2, 5), (MAX_READ_EVENTS, 20), id="up to the largest number"),
        pytest.param((1, MAX_READ_BYTES), (4, MAX_READ_BYTES), id="up to the largest size"),
    ],
)
def test_more_events_are_read(before: tuple[int, int], after: tuple[int, int]) -> None:
    assert with_more_events(limited(BOTH, event(1)), reading(*before)) == reading(*after)


def test_no_events_are_read_where_none_were() -> None:
    assert with_more_events(limited(BOTH), ReadPlan()) == ReadPlan()


@pytest.mark.parametrize(
    "read", [pytest.param((MAX_READ_EVENTS, 5), id="too many"), pytest.param((2, MAX_READ_BYTES), id="too large")]
)
def test_more_events_than_fit_into_memory_are_a_fault_of_the_dag(read: tuple[int, int]) -> None:
    with pytest.raises(DagFaultError, match=r"DAG 'd': its 1 oldest pending events do not meet its condition"):
        with_more_events(limited(BOTH, event(1)), reading(*read))


def reading(limit: int, max_bytes: int) -> ReadPlan:
    return ReadPlan(events=EventPlan(limit=limit, max_bytes=max_bytes))
