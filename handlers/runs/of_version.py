"""What a run takes from its version: its timeout, and the tasks that it lacks."""

from datetime import datetime, timedelta

from tidegate.schemas.dag import BaseTask
from tidegate.schemas.graph import Graph
from tidegate.schemas.view import RunView


def times_out_at(graph: Graph, start_date: datetime) -> datetime | None:
    """When a run that started then exceeds the timeout of this version."""
    return start_date + timedelta(seconds=graph.run_timeout_s) if graph.run_timeout_s else None


def absent_tasks(graph: Graph, run: RunView) -> frozenset[int]:
    """The tasks that are no part of this run, because its logical date is outside their dates."""
    if not graph.dated or run.logical_date is None:
        return frozenset()
    return frozenset(i for i, node in enumerate(graph.nodes) if not _within(node.task, run.logical_date))


def _within(task: BaseTask, date: datetime) -> bool:
    return (task.start_date is None or task.start_date <= date) and (task.end_date is None or date <= task.end_date)
