"""Timetables of DAGs, for the CLI's list of next runs. Takes no lock."""

from collections.abc import Mapping

import msgspec

from tidegate.schemas.dag import DagSpec
from tidegate.schemas.graph import graph_of
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView

_SQL = load("plans")


async def plans(db: Db, dag_id: str | None = None) -> Mapping[str, DagView]:
    """The DAGs that run by time, or the one named if it does, with neither tasks nor anything that waits for them."""
    found = {}
    for id_, version_id, head, is_paused, is_stale, date, start, end, since, taken in await db.fetch(_SQL["plans"], dag_id):
        found[id_] = DagView(
            graph=graph_of(version_id, msgspec.convert(head, DagSpec)),
            is_paused=is_paused,
            is_stale=is_stale,
            running=0,
            queued=0,
            next_run_id=0,
            timed_since=since,
            last_tick=None if date is None else Tick(date, start, end, end),
            run_dates=frozenset(taken),
        )
    return found
