"""Ticks of a timetable that make a run only if the condition over datasets holds then."""

from datetime import UTC, datetime

import msgspec

from tidegate.handlers.runs.create import create
from tidegate.handlers.scheduling.blockers import Broken, sure
from tidegate.handlers.scheduling.condition import Apart, Busy, Open, TooSoon, Verdict, Waiting, judge
from tidegate.handlers.scheduling.dataset_runs import Step, after_run, taken, without
from tidegate.handlers.scheduling.inputs import sift
from tidegate.handlers.scheduling.timetable import after_tick, following, is_due, timed_run
from tidegate.schemas.effect.dag import NoteSchedule
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView

MOST_UNMET = 100
"""How many ticks that find the condition unmet are passed over at once; then it is enough for one decision."""


def joint_run(dag: DagView, tick: Tick, now: datetime) -> Step:
    """A run of the first of the ticks that are due which found the condition met; what those before it found is recorded."""
    for _ in range(MOST_UNMET):
        verdict = _at_tick(dag, tick)
        if isinstance(verdict, Open):
            return (yield from _run(dag, tick, verdict, now))
        yield NoteSchedule(dag.graph.dag_id, "tick_unmet", _unmet(tick, verdict), now)
        dag = msgspec.structs.replace(dag, last_tick=tick)
        after = following(dag, now)
        if after is None or not is_due(dag, after, now):
            return dag
        tick = after
    return msgspec.structs.replace(dag, tick_run_ids=())


def _run(dag: DagView, tick: Tick, verdict: Open, now: datetime) -> Step:
    run = timed_run(dag, tick)
    yield from create(run, {}, dag.graph, now, started=True, events=len(verdict.events))
    yield from taken(dag, run, verdict)
    return after_run(without(after_tick(dag, tick, now), verdict), run, tick.run_after)


def _at_tick(dag: DagView, tick: Tick) -> Verdict | Broken:
    """What the tick finds: the events that had arrived by then."""
    at = tick.run_after
    arrived = [event for event in dag.pending if event.arrived_at <= at]
    return sure(lambda: judge(dag.graph, sift(dag.graph, arrived, at).inputs, at, dag.dataset_run_at))


def _unmet(tick: Tick, verdict: Waiting | Apart | Busy | TooSoon | Broken) -> str:
    return f"the tick of {tick.run_after.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC found {_found(verdict)}"


def _found(verdict: Waiting | Apart | Busy | TooSoon | Broken) -> str:
    match verdict:
        case Waiting(missing):
            return f"no event of {', '.join(missing)}"
        case Apart(within_s):
            return f"inputs that did not happen within {within_s:g} s of each other"
        case Busy():
            return "events that still came"
        case TooSoon():
            return "the run before too shortly ago"
        case _:
            return f"a condition that cannot be read: {verdict.reason}"
