"""DAGs whose schedule inspects events, and summaries of their next runs; times are in minutes from `NOW`."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tests.shapes import NOW, dag_view, graph
from tests.unit.handlers.timed_dags import minutes_of
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.schemas.conditions.condition import Condition, DatasetRef, InputDeadlineSpec, Timing
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import ConsumeEvents, DiscardEvents, NoteSchedule, UpdateSchedule
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.state import RunState
from tidegate.schemas.view import DagView, PendingEvent


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def event(id_: int, name: str = "a", *, arrived: float = 0, happened: float | None = None, **extra: Any) -> PendingEvent:
    """An event of `s://NAME`. By default it occurred when it arrived."""
    occurred = at(arrived if happened is None else happened)
    return PendingEvent(ord(name[0]), id_, f"s://{name}", occurred, at(arrived), msgspec.json.encode(extra).decode())


def expiring(name: str, minutes: float, where: str = "") -> DatasetRef:
    return DatasetRef(f"s://{name}", where, minutes * 60)


def timed(**minutes: float) -> Timing:
    return msgspec.convert({f"{name}_s": value * 60 for name, value in minutes.items()}, Timing)


def by(fallback: Any, **facts: Any) -> Timing:
    if "after" in facts:
        facts["after_s"] = facts.pop("after") * 60
    return Timing(deadline=InputDeadlineSpec(fallback=fallback, **facts))


def consumer(condition: Condition, *events: PendingEvent, tasks: Sequence[Any] = ("t",), **facts: Any) -> DagView:
    """A DAG with these pending events. Facts that a graph has are the graph's."""
    of_graph = ("timing", "mode", "together", "timetable", "limit", "missed", "missed_per_minute", "start_date")
    given = {name: facts.pop(name) for name in of_graph if name in facts}
    return dag_view(graph(*tasks, schedule=condition, **given), pending=events, **facts)


class Outcome(msgspec.Struct, frozen=True):
    """Runs as the ids of their events, discarded events by reason, notes, and the clock."""

    runs: list[list[int]]
    discarded: dict[str, list[int]]
    noted: list[tuple[str, str]]
    wakeup: float | None
    clock: UpdateSchedule | None
    effects: list[Effect]


def scheduled(dag: DagView, minutes: float = 0) -> Outcome:
    effects = list(schedule_next_runs(dag, at(minutes)))
    assert {getattr(effect, "dag_id", "d") for effect in effects} <= {dag.graph.dag_id}
    assert {effect.at for effect in _all(effects, NoteSchedule)} <= {at(minutes)}
    assert {run.start_date for run in _all(effects, InsertRun) if run.state is RunState.RUNNING} <= {at(minutes)}
    of_runs = {effect.dag_run_id: [each.dataset_event_id for each in effect.events] for effect in _all(effects, ConsumeEvents)}
    clock = next(iter(_all(effects, UpdateSchedule)), None)
    return Outcome(
        runs=[of_runs.get(effect.id, []) for effect in _all(effects, InsertRun)],
        discarded={e.reason: [each.dataset_event_id for each in e.events] for e in _all(effects, DiscardEvents)},
        noted=[(effect.kind, effect.reason) for effect in _all(effects, NoteSchedule)],
        wakeup=minutes_of(clock.due_at) if clock else minutes_of(dag.due_at),
        clock=clock,
        effects=effects,
    )


def _all(effects: Sequence[Effect], kind: type[Any]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]
