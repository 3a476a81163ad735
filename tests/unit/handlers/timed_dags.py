"""DAGs with a timetable of given minutes from `NOW`, and summaries of their next runs."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.shapes import NOW, dag_view, graph
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import UpdateSchedule
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunType
from tidegate.schemas.timetable.spec import Dates
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def tick(minutes: float) -> Tick:
    return Tick(*4 * (at(minutes),))


def timed(*minutes: float, tasks: Sequence[Any] = ("t",), **facts: Any) -> Graph:
    """A DAG that is to run at these times, whether or not they have passed."""
    dates = Dates(tuple(map(at, minutes)))
    return graph(*tasks, timetable=dates, start_date=at(-9999), missed=facts.pop("missed", "all"), **facts)


def view(dag: Graph, **facts: Any) -> DagView:
    return dag_view(dag, timed_run_ids=(201, 202, 203), **facts)


def scheduled(dag: DagView) -> list[Effect]:
    return list(schedule_next_runs(dag, NOW))


def fired(effects: Sequence[Effect]) -> list[float]:
    """The logical dates of the timed runs, in minutes from now."""
    runs = [effect for effect in effects if isinstance(effect, InsertRun) and effect.run_type is RunType.SCHEDULED]
    return [(run.logical_date - NOW) / timedelta(minutes=1) for run in runs if run.logical_date]


def clock(effects: Sequence[Effect]) -> list[tuple[float | None, float | None]]:
    """What the clock was set to: the last logical date, and the next wakeup, in minutes from now."""
    return [(minutes_of(e.last_logical_date), minutes_of(e.due_at)) for e in effects if isinstance(e, UpdateSchedule)]


def minutes_of(moment: datetime | None) -> float | None:
    return None if moment is None else (moment - NOW) / timedelta(minutes=1)
