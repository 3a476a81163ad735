"""DAG runs: lock, insert, update, journal, lists."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tidegate.schemas.effect.run import ChangeVersion, InsertRun, Reconsider, ReconsiderAfter, RunMoved, UpdateRun
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import RunState, RunType
from tidegate.schemas.view import RunView

_SQL = load("runs")
_LOCK = _SQL["lock"]
_LOCK_OF_ATTEMPTS = _SQL["lock_of_attempts"]
_VIEWS = _SQL["views"]
_FIND = _SQL["find_runs"]
_CHANGE_VERSION = _SQL["change_version"]
_SET_ASIDE_TASKS = _SQL["set_aside_tasks"]
_PLACE_TASKS = _SQL["place_tasks"]
_SET_ASIDE_ATTEMPTS = _SQL["set_aside_attempts"]
_PLACE_ATTEMPTS = _SQL["place_attempts"]
_SET_ASIDE_RESULTS = _SQL["set_aside_results"]
_PLACE_RESULTS = _SQL["place_results"]
_DAGS_OF = _SQL["dags_of"]
_RECONSIDER = _SQL["reconsider"]
_RECONSIDER_AFTER = _SQL["reconsider_after"]
_TO_RECONSIDER = _SQL["to_reconsider"]
_TAKE_UP = _SQL["take_up"]
_BEFORE = _SQL["run_before"]
_INSERT = _SQL["insert_runs"]
_UPDATE = _SQL["update_runs"]
_LOG = _SQL["log_moves"]
_EXISTS = _SQL["exists"]
_OF_DATE = _SQL["run_of_date"]


def run_view(row: Any) -> RunView:
    """A row of the columns of `RunView`, which are its fields in their order."""
    view = dict(zip(RunView.__struct_fields__, row, strict=True))
    view["run_type"], view["state"] = RunType(view["run_type"]), RunState(view["state"])
    return RunView(**view)


async def lock(db: Db, ids: Collection[int]) -> Mapping[int, RunView]:
    """Lock these runs, in the global order."""
    return _by_id(await db.lock(_LOCK, sorted(ids))) if ids else {}


async def lock_of_attempts(db: Db, submission_ids: Collection[UUID]) -> Mapping[int, RunView]:
    """Lock the runs that these attempts belong to, in the global order."""
    return _by_id(await db.lock(_LOCK_OF_ATTEMPTS, list(submission_ids)))


async def views(db: Db, ids: Collection[int]) -> Mapping[int, RunView]:
    """These runs as they are at the moment: for who only looks."""
    return _by_id(await db.fetch(_VIEWS, list(ids))) if ids else {}


def _by_id(rows: Iterable[Any]) -> Mapping[int, RunView]:
    return {view.id: view for view in map(run_view, rows)}


async def insert(db: Db, effects: Sequence[InsertRun]) -> None:
    await db.write("dag_run", _INSERT, *columns(effects), db.author, db.writer, db.upon)


async def update(db: Db, effects: Sequence[UpdateRun]) -> None:
    await db.write("dag_run", _UPDATE, *columns(effects))


async def log(db: Db, effects: Sequence[RunMoved]) -> None:
    """Write the journal; the same number twice for a run is refused."""
    rows = [(move.dag_run_id, move.event.seq, move.event.state, move.event.reason, move.event.at) for move in effects]
    await db.write("run_state_log", _LOG, *zip(*rows, strict=True))


async def matching(db: Db, dag_id: str, run_id: str | None, start: datetime | None, end: datetime | None) -> list[int]:
    """The run of this id, or all that come from `start` to `end` in the order of the DAG's runs."""
    return [row[0] for row in await db.fetch(_FIND, dag_id, run_id, start, end)]


async def change_version(db: Db, effects: Sequence[ChangeVersion]) -> None:
    ids = [effect.dag_run_id for effect in effects]
    await db.execute(_CHANGE_VERSION, ids, [e.version_id for e in effects], [e.max_active_tasks for e in effects])
    places = [(effect.dag_run_id, old, new) for effect in effects for old, new in effect.indices]
    for set_aside, place in (
        (_SET_ASIDE_TASKS, _PLACE_TASKS),
        (_SET_ASIDE_ATTEMPTS, _PLACE_ATTEMPTS),
        (_SET_ASIDE_RESULTS, _PLACE_RESULTS),
    ):
        await db.execute(set_aside, ids)
        await db.execute(place, *zip(*places, strict=True))


async def dags_of(db: Db, ids: Collection[int]) -> list[str]:
    """The DAGs of these runs."""
    return [row[0] for row in await db.fetch(_DAGS_OF, list(ids))]


async def reconsider(db: Db, effects: Sequence[Reconsider]) -> None:
    """A reason to stop stays, whoever else asks."""
    await db.write("run_to_reconsider", _RECONSIDER, *columns(effects))


async def reconsider_after(db: Db, effects: Sequence[ReconsiderAfter]) -> None:
    await db.execute(_RECONSIDER_AFTER, *columns(effects))


async def to_reconsider(db: Db, limit: int) -> list[int]:
    """The runs to be looked at as a whole, in the order in which that was asked for."""
    return [row[0] for row in await db.fetch(_TO_RECONSIDER, limit)]


async def taken_up(db: Db, ids: Collection[int]) -> Mapping[int, str | None]:
    """Those of these locked runs that were still to be looked at, with the reason to stop them; from now on they are not."""
    return {row[0]: row[1] for row in await db.fetch(_TAKE_UP, list(ids))}


async def before(db: Db, ids: Collection[int]) -> Mapping[int, tuple[int, RunState]]:
    """By run, the one of its DAG before it, and that one's state; the first of a DAG has none."""
    return {row[0]: (row[1], RunState(row[2])) for row in await db.fetch(_BEFORE, list(ids))}


async def exists(db: Db, dag_id: str, run_id: str) -> bool:
    return bool(await db.fetch(_EXISTS, dag_id, run_id))


async def run_of_date(db: Db, dag_id: str, logical_date: datetime) -> str | None:
    """The run of a DAG for a logical date: there is one at most."""
    rows = await db.fetch(_OF_DATE, dag_id, logical_date)
    return str(rows[0][0]) if rows else None
