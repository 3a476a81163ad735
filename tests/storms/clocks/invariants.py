"""What must be true of times after a storm of wrong clocks. Each function returns what contradicts its name, as sentences."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TypeAlias

import asyncpg

from tests.storms.evidence import CLEARED, read_all
from tidegate.daemon.duties import notify
from tidegate.schemas.wire.event import Kind

WRONG = (timedelta(minutes=2), timedelta(minutes=25))
"""What lies so far before the storm, or after it, is of a clock that was wrong: nothing is due then, and no test is so slow."""

Db: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

COLUMNS = """
SELECT columns.table_name AS of, column_name AS name
FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = 'public' AND data_type = 'timestamp with time zone' AND table_type = 'BASE TABLE'
ORDER BY 1, 2
"""

PAUSES = {("notification", "due_at"): timedelta(seconds=1.25 * notify.LONGEST_PAUSE_S)}
"""A notification that fails is due again after a pause that doubles."""

PRODUCERS = {("dataset_event", "occurred_at")}
"""What producers say; but that it is not later than the arrival."""


class Window:
    """From when to when the storm lasted, by the server's clock."""

    def __init__(self, begin: datetime, end: datetime) -> None:
        self._begin = begin
        self._end = end

    def is_wrong(self, at: datetime, nearest: timedelta = WRONG[0]) -> bool:
        farthest = WRONG[1]
        before, after = self._begin - at, at - self._end
        return nearest < before < farthest or nearest < after < farthest


async def no_time_in_the_database_is_of_a_wrong_clock(db: Db, window: Window) -> Iterable[str]:
    found = []
    for of, name in await db.fetch(COLUMNS):
        rows = await db.fetch(f"SELECT DISTINCT {name} FROM {of} WHERE isfinite({name})")
        wrong = sorted(row[0] for row in rows if window.is_wrong(row[0], PAUSES.get((of, name), WRONG[0])))
        if wrong and (of, name) not in PRODUCERS:
            found.append(f"{of}.{name} has {len(wrong)} wrong times, such as {wrong[0]}")
    return found


async def no_time_in_the_topics_is_of_a_wrong_clock(servers: str, prefix: str, window: Window) -> Iterable[str]:
    """As the headers say it."""
    found = []
    for kind in Kind:
        async for record in read_all(servers, f"{prefix}{kind}", {}):
            said = dict(record.headers).get("ce_time")
            if said and window.is_wrong(datetime.fromisoformat(said.decode())):
                found.append(f"{kind}, offset {record.offset} of {record.partition}, is of {said.decode()}")
    return found


async def nothing_starts_early_or_late(db: Db, late_s: float) -> Iterable[str]:
    """Runs by their timetable, tries by the pause after the one before, deadlines by when they pass.

    A try after a clear comes when the clear comes.
    """
    return [
        f"{row['what']} was due at {row['due']}, and came at {row['came']}"
        for row in await db.fetch(DUE)
        if not 0 <= (row["came"] - row["due"]).total_seconds() <= late_s
    ]


DUE = f"""
SELECT run_id AS what, run_after AS due, created_at AS came FROM dag_run WHERE run_type = 'scheduled'
UNION ALL
SELECT run.run_id || ', missed ' || name, due_at, missed_at FROM deadline JOIN dag_run AS run ON run.id = dag_run_id
WHERE missed_at IS NOT NULL
UNION ALL
SELECT run.run_id || ', try ' || next.try_number, failed.ended_at + interval '1.8 s', next.created_at
FROM dag_run AS run
JOIN submission AS failed ON failed.dag_run_id = run.id
JOIN submission AS next USING (dag_run_id, task_index)
WHERE next.try_number = failed.try_number + 1 AND run.run_type = 'scheduled' AND run.id NOT IN ({CLEARED})
"""


async def timed_runs(db: Db) -> Mapping[str, int]:
    """How many of what there was that could have been early or late."""
    return {
        "timed runs": await db.fetchval("SELECT count(*) FROM dag_run WHERE run_type = 'scheduled'"),
        "second tries of timed runs": await db.fetchval(
            "SELECT count(*) FROM submission JOIN dag_run ON dag_run.id = dag_run_id"
            " WHERE run_type = 'scheduled' AND submission.try_number > 1"
        ),
    }
