"""Ticks that make a run only if the condition over datasets holds at the tick."""

from datetime import datetime

import msgspec

from tidegate.handlers.runs.create import create
from tidegate.handlers.scheduling.condition import ConditionResult, Satisfied, evaluate_condition, evaluated
from tidegate.handlers.scheduling.dataset_runs import Step, after_dataset_run, consume, without_events
from tidegate.handlers.scheduling.inputs import inspect_events
from tidegate.handlers.scheduling.missed_ticks import note_missed
from tidegate.handlers.scheduling.run_size import limit_events
from tidegate.handlers.scheduling.timetable import after_tick, may_start, timed_run, upcoming_tick
from tidegate.schemas.effect.dag import NoteSchedule
from tidegate.schemas.text import utc
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView

MAX_UNMET_TICKS = 100
"""The maximum of ticks without a run that one decision passes."""


def start_timed_dataset_run(dag: DagView, tick: Tick, now: datetime) -> Step:
    """Start the run of the first due tick at which the condition held, and record a note for each tick before it."""
    for _ in range(MAX_UNMET_TICKS):
        yield from note_missed(dag, tick, now)
        result = _condition_at(dag, tick)
        if isinstance(result, Satisfied):
            return (yield from _start(dag, tick, result, now))
        reason = f"the tick of {utc(tick.run_after)} made no run: it waited for {result.text}"
        yield NoteSchedule(dag.graph.dag_id, "tick_unmet", reason, now)
        dag = msgspec.structs.replace(dag, last_tick=tick)
        following = upcoming_tick(dag, now)
        if following is None or not may_start(dag, following, now):
            return dag
        tick = following
    return msgspec.structs.replace(dag, timed_run_ids=())


def _start(dag: DagView, tick: Tick, satisfied: Satisfied, now: datetime) -> Step:
    run = timed_run(dag, tick)
    satisfied, left = limit_events(dag, satisfied)
    yield from create(run, {}, dag.graph, now, started=True, events=len(satisfied.events), events_left=left)
    yield from consume(dag, run, satisfied)
    return after_dataset_run(without_events(after_tick(dag, tick, now), satisfied), run, tick.run_after)


def _condition_at(dag: DagView, tick: Tick) -> ConditionResult:
    """The condition over the events that had arrived at the tick."""
    at = tick.run_after
    arrived = [event for event in dag.pending if event.arrived_at <= at]
    return evaluated(lambda: evaluate_condition(dag.graph, inspect_events(dag.graph, arrived, at).inputs, at, dag.dataset_run_at))
