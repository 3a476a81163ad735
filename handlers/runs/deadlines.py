"""The deadlines of a new run and its tasks, as points in time.

A run that is made after the time of a deadline has not missed it: that of a catch-up, a backfill or a changed time comes late by
intention, and would be late at its first moment.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tidegate.schemas.dag import DeadlineSpec
from tidegate.schemas.effect.deadline import InsertDeadline
from tidegate.schemas.graph import Graph
from tidegate.schemas.time_range import clamped
from tidegate.schemas.timetable.wallclock import instant, local
from tidegate.schemas.view import RunView

DAY = timedelta(days=1)


def insert_deadlines(run: RunView, graph: Graph, now: datetime) -> Iterator[InsertDeadline]:
    """The deadlines of a run that is queued now."""
    of_run = [(None, spec) for spec in graph.deadlines]
    of_tasks = [(node.task.task_id, spec) for node in graph.nodes for spec in node.task.deadlines]
    for task_id, spec in (*of_run, *of_tasks):
        if (due := due_at(spec, run, now)) >= now:
            yield InsertDeadline(run.id, task_id, spec.name, due)


def due_at(spec: DeadlineSpec, run: RunView, queued_at: datetime) -> datetime:
    """When the deadline of a run is missed. A run without a logical date counts from its `run_after`."""
    begin = clamped(queued_at if spec.since == "queued_at" else run.order_at)
    if spec.at is None:
        return begin + timedelta(seconds=spec.after_s or 0)
    wall = local(begin, spec.timezone).replace(hour=0, minute=0, second=0, microsecond=0)
    wall += timedelta(hours=spec.at.hour, minutes=spec.at.minute, seconds=spec.at.second, microseconds=spec.at.microsecond)
    due = instant(wall, spec.timezone)
    return due if due >= begin else instant(wall + DAY, spec.timezone)
