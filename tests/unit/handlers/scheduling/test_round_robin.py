"""Which source of runs is served next."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from tests.shapes import NOW, A, pending, queued
from tests.unit.handlers.timed_dags import scheduled, timed, view
from tidegate.handlers.scheduling.next_runs import RunEnd, schedule_after_ends
from tidegate.handlers.scheduling.round_robin import Source
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import ConsumeEvents, UpdateSchedule
from tidegate.schemas.effect.run import InsertRun, UpdateRun
from tidegate.schemas.state import RunState
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView, PendingEvent

QUEUE, EVENTS, TIMETABLE = Source
DUE = tuple(range(-60, 0, 2))
KINDS: Mapping[str, Source] = {"dataset": EVENTS, "scheduled": TIMETABLE}


def crowded(limit: int, *, asks: Sequence[Source] = tuple(Source), last_source: Source | None = None) -> DagView:
    """A DAG that each of these asks for more runs than it may have."""
    dag = timed(*(DUE if TIMETABLE in asks else ()), schedule=A, limit=limit)
    waiting = queued(dag, *range(1, 21)) if QUEUE in asks else ()
    events = tuple(pending(id_) for id_ in range(20)) if EVENTS in asks else ()
    return view(dag, queued_runs=waiting, queued=len(waiting), pending=events, last_source=last_source)


def started(effects: Sequence[Effect]) -> list[Source]:
    """What asked for the runs that started."""
    runs = [effect for effect in effects if isinstance(effect, InsertRun | UpdateRun)]
    return [KINDS[run.run_type] if isinstance(run, InsertRun) else QUEUE for run in runs]


def turns(effects: Sequence[Effect]) -> list[str | None]:
    return [effect.last_source for effect in effects if isinstance(effect, UpdateSchedule)]


@pytest.mark.parametrize(
    ("dag", "starts"),
    [
        pytest.param(crowded(1), [QUEUE], id="the queue is first"),
        pytest.param(crowded(1, last_source=QUEUE), [EVENTS], id="then events"),
        pytest.param(crowded(1, last_source=EVENTS), [TIMETABLE], id="then the timetable"),
        pytest.param(crowded(1, last_source=TIMETABLE), [QUEUE], id="and again the queue"),
        pytest.param(crowded(5), [QUEUE, EVENTS, TIMETABLE, QUEUE, TIMETABLE], id="events ask once for all of them"),
        pytest.param(crowded(1, asks=(EVENTS, TIMETABLE)), [EVENTS], id="without a queue"),
        pytest.param(
            crowded(1, asks=(QUEUE, TIMETABLE), last_source=QUEUE), [TIMETABLE], id="a source without runs is passed over"
        ),
        pytest.param(crowded(3, asks=(QUEUE,), last_source=QUEUE), [QUEUE, QUEUE, QUEUE], id="a single source is always served"),
    ],
)
def test_sources_of_runs_are_served_round_robin(dag: DagView, starts: Sequence[Source]) -> None:
    assert started(scheduled(dag)) == starts


@pytest.mark.parametrize(
    ("dag", "kept"),
    [
        pytest.param(crowded(1), ["queue"], id="the one that had it"),
        pytest.param(crowded(2), ["events"], id="the last one that was served"),
        pytest.param(crowded(2, asks=(QUEUE,)), [], id="none, if no other source was ready"),
    ],
)
def test_the_last_source_is_stored_only_if_several_were_ready(dag: DagView, kept: Sequence[str]) -> None:
    assert turns(scheduled(dag)) == kept


def test_a_source_waits_for_one_run_of_each_other_source_at_most() -> None:
    dag, order = crowded(1), list[Source]()

    for number in range(30):
        effects = list(schedule_after_ends(msgspec.structs.replace(dag, running=1), [RunEnd(RunState.SUCCESS)], NOW))
        order += started(effects)
        dag = _later(dag, effects, pending(100 + number))

    assert order == 10 * [QUEUE, EVENTS, TIMETABLE]


def _later(dag: DagView, effects: Sequence[Effect], event: PendingEvent) -> DagView:
    """The DAG after these effects, when one more event has come."""
    ids = {effect.id for effect in effects if isinstance(effect, UpdateRun)}
    gone = {each for effect in effects if isinstance(effect, ConsumeEvents) for each in effect.events}
    waiting = tuple(each for each in dag.queued_runs if each.run.id not in ids)
    left = (*(each for each in dag.pending if each not in gone), event)
    for clock in (effect for effect in effects if isinstance(effect, UpdateSchedule)):
        date = clock.last_logical_date
        dag = msgspec.structs.replace(
            dag, last_source=clock.last_source, last_tick=Tick(date, date, date, date) if date else None
        )
    return msgspec.structs.replace(dag, queued_runs=waiting, queued=len(waiting), pending=left)
