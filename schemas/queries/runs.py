"""DAG runs: lock, insert, update, journal, lists."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tidegate.schemas.effect.run import ChangeVersion, RunMoved
from tidegate.schemas.graph import is_removed
from tidegate.schemas.queries import tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import RunState, RunType
from tidegate.schemas.view import PreviousRun, RunView

_SQL = load("runs")


def run_view(row: Any) -> RunView:
    """Build the view from a row whose columns are the fields of `RunView`, in their order."""
    view = dict(zip(RunView.__struct_fields__, row, strict=True))
    view["run_type"], view["state"] = RunType(view["run_type"]), RunState(view["state"])
    return RunView(**view)


async def lock(db: Db, ids: Collection[int], *, skips: bool = False) -> Mapping[int, RunView]:
    """Lock these runs, in the global order. `skips` as in `Db.lock`."""
    return _by_id(await db.lock(_SQL["lock"], sorted(ids), skips=skips)) if ids else {}


async def lock_unread(db: Db, ids: Collection[int]) -> Mapping[int, RunView]:
    """Lock these runs, also of held DAGs."""
    return _by_id(await db.lock(_SQL["lock_unread"], sorted(ids))) if ids else {}


async def any_unfinished(db: Db, dag_id: str) -> bool:
    """Whether a run of the DAG is queued or running."""
    return bool((await db.fetch(_SQL["any_unfinished"], dag_id))[0][0])


async def lock_of_attempts(db: Db, submission_ids: Collection[UUID]) -> Mapping[int, RunView]:
    """Lock the runs that these attempts belong to, in the global order; `Db.lock` may skip some."""
    return _by_id(await db.lock(_SQL["lock_of_attempts"], list(submission_ids), skips=True))


async def views(db: Db, ids: Collection[int]) -> Mapping[int, RunView]:
    """Read these runs without locking them."""
    return _by_id(await db.fetch(_SQL["views"], list(ids))) if ids else {}


def _by_id(rows: Iterable[Any]) -> Mapping[int, RunView]:
    return {view.id: view for view in map(run_view, rows)}


def journal_columns(effects: Sequence[RunMoved]) -> Sequence[Sequence[Any]]:
    rows = [(move.dag_run_id, move.event.seq, move.event.state, move.event.reason, move.event.at) for move in effects]
    return list(zip(*rows, strict=True))


async def matching(db: Db, dag_id: str, run_id: str | None, start: datetime | None, end: datetime | None) -> list[int]:
    """The run of this id, or all runs from `start` to `end` by logical date or, without one, `run_after`."""
    return [row[0] for row in await db.fetch(_SQL["find_runs"], dag_id, run_id, start, end)]


async def named(db: Db, dag_id: str, run_ids: Collection[str]) -> list[int]:
    """The runs of these ids; unknown ones are left out."""
    return [row[0] for row in await db.fetch(_SQL["named"], dag_id, list(run_ids))]


async def active_of(db: Db, dag_id: str, run_ids: Collection[str]) -> list[int]:
    """Those of these runs that have not ended, in the global order."""
    return [row[0] for row in await db.fetch(_SQL["active_of"], dag_id, list(run_ids))]


async def active_names(db: Db, dag_id: str, run_ids: Collection[str]) -> list[str]:
    """The ids of those of these runs that have not ended."""
    return [row[0] for row in await db.fetch(_SQL["active_names"], dag_id, list(run_ids))]


async def change_version(db: Db, effects: Sequence[ChangeVersion]) -> None:
    ids = [effect.dag_run_id for effect in effects]
    rows = [(effect.dag_run_id, effect.version_id, effect.max_active_tasks, effect.times_out_at) for effect in effects]
    await db.execute(_SQL["change_version"], *zip(*rows, strict=True))
    lowest = {row[0]: row[1] for row in await db.fetch(_SQL["lowest_indices"], ids)}
    places = [
        (effect.dag_run_id, old, lowest.get(effect.dag_run_id, 0) + new if is_removed(new) else new)
        for effect in effects
        for old, new in effect.indices
    ]
    if not places:
        return  # No run has started.
    for set_aside, place in (
        (_SQL["set_aside_tasks"], _SQL["place_tasks"]),
        (_SQL["set_aside_attempts"], _SQL["place_attempts"]),
        (_SQL["set_aside_results"], _SQL["place_results"]),
    ):
        await db.execute(set_aside, ids)
        await db.execute(place, *zip(*places, strict=True))


async def dags_of(db: Db, ids: Collection[int]) -> list[str]:
    """The DAGs of these runs."""
    return [row[0] for row in await db.fetch(_SQL["dags_of"], list(ids))]


async def to_reconsider(db: Db, limit: int, without: Collection[int] = ()) -> list[int]:
    """Runs to reconsider, oldest request first."""
    return [row[0] for row in await db.fetch(_SQL["to_reconsider"], limit, without)]


async def reconsider_after_other_versions(db: Db) -> int:
    """Request to reconsider the running runs whose tasks wait for a run of another version. Returns the number of requests."""
    return int((await db.execute(_SQL["reconsider_after_other_versions"])).rpartition(" ")[2])


async def dequeue_reconsiderations(db: Db, ids: Collection[int], locked: Collection[int]) -> Mapping[int, str | None]:
    """Dequeue the requests to reconsider these runs, if they are locked: run id to stop reason.

    Runs without a request are left out. Requests of runs that do not exist are dequeued, too, and left out.
    """
    found = await db.fetch(_SQL["dequeue_reconsiderations"], list(ids), list(locked))
    return {id_: reason for id_, reason in found if id_ in locked}


async def previous(db: Db, ids: Collection[int]) -> Mapping[int, PreviousRun]:
    """The previous run of each run; the first run of a DAG has none. A run that ended before it started has no tasks."""
    before = await db.fetch(_SQL["run_before"], list(ids)) if ids else []
    states = await tasks.states(db, {previous for _, previous, _ in before}) if before else {}
    return {
        id_: PreviousRun(states.get(previous) if state == RunState.QUEUED else states.get(previous, {}))
        for id_, previous, state in before
    }


async def exists(db: Db, dag_id: str, run_id: str) -> bool:
    return bool(await db.fetch(_SQL["exists"], dag_id, run_id))


async def run_of_date(db: Db, dag_id: str, logical_date: datetime) -> str | None:
    """The only run of a DAG for a logical date, if there is one."""
    rows = await db.fetch(_SQL["run_of_date"], dag_id, logical_date)
    return str(rows[0][0]) if rows else None
