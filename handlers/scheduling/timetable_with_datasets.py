"""Ticks of a timetable that make a run only if the condition over datasets holds then."""

from datetime import datetime

import msgspec

from tidegate.handlers.runs.create import create
from tidegate.handlers.scheduling.condition import ConditionResult, Satisfied, evaluate_condition, evaluated
from tidegate.handlers.scheduling.dataset_runs import Step, after_run, taken, without
from tidegate.handlers.scheduling.inputs import sift
from tidegate.handlers.scheduling.timetable import after_tick, following, is_due, timed_run
from tidegate.schemas.effect.dag import NoteSchedule
from tidegate.schemas.timetable.text import utc
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView

MOST_UNMET = 100
"""How many ticks that find the condition unmet are passed over at once; then it is enough for one decision."""


def joint_run(dag: DagView, tick: Tick, now: datetime) -> Step:
    """A run of the first of the ticks that are due which found the condition met; what those before it found is recorded."""
    for _ in range(MOST_UNMET):
        result = _at_tick(dag, tick)
        if isinstance(result, Satisfied):
            return (yield from _run(dag, tick, result, now))
        reason = f"the tick of {utc(tick.run_after)} made no run: it waited for {result.text}"
        yield NoteSchedule(dag.graph.dag_id, "tick_unmet", reason, now)
        dag = msgspec.structs.replace(dag, last_tick=tick)
        after = following(dag, now)
        if after is None or not is_due(dag, after, now):
            return dag
        tick = after
    return msgspec.structs.replace(dag, tick_run_ids=())


def _run(dag: DagView, tick: Tick, satisfied: Satisfied, now: datetime) -> Step:
    run = timed_run(dag, tick)
    yield from create(run, {}, dag.graph, now, started=True, events=len(satisfied.events))
    yield from taken(dag, run, satisfied)
    return after_run(without(after_tick(dag, tick, now), satisfied), run, tick.run_after)


def _at_tick(dag: DagView, tick: Tick) -> ConditionResult:
    """What the tick finds: the events that had arrived by then."""
    at = tick.run_after
    arrived = [event for event in dag.pending if event.arrived_at <= at]
    return evaluated(lambda: evaluate_condition(dag.graph, sift(dag.graph, arrived, at).inputs, at, dag.dataset_run_at))
