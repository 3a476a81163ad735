"""What must be true of deadlines after a storm. Each function returns what contradicts its name, as sentences."""

from collections import Counter
from collections.abc import Iterable

import asyncpg
from msgspec import UNSET

from tests.storms.evidence import Evidence


async def each_deadline_was_met_or_missed(e: Evidence) -> Iterable[str]:
    """As the ends of its run or task say, to the moment; but what is cleared ends again."""
    rows = await e.db.fetch(
        """
        SELECT run.id, run.run_id, deadline.task_id, deadline.name, deadline.due_at, deadline.met_at, deadline.missed_at,
            coalesce(task.end_date, run.end_date) AS ended_at
        FROM deadline
        JOIN dag_run AS run ON run.id = deadline.dag_run_id
        LEFT JOIN task_instance AS task ON task.dag_run_id = run.id AND task.task_id = deadline.task_id
        """
    )
    return [
        f"{row['run_id']} {row['task_id']} ended at {row['ended_at']}, but {row['name']} of {row['due_at']} was met at"
        f" {row['met_at']} and missed at {row['missed_at']}"
        for row in rows
        if (row["met_at"] is None) == (row["missed_at"] is None)
        or (row["id"] not in e.cleared and _in_time(row) != (row["met_at"] is not None))
    ]


def _in_time(row: "asyncpg.Record") -> bool:
    return row["ended_at"] is not None and row["ended_at"] <= row["due_at"]


async def each_missed_deadline_is_told_once(e: Evidence) -> Iterable[str]:
    """In the journal, on the topic, and to the one who wants to know."""
    missed = await e.db.fetch(
        """
        SELECT run.dag_id, run.run_id, deadline.task_id, missed_seq,
            (SELECT count(*) FROM run_state_log AS log WHERE log.dag_run_id = run.id AND log.seq = missed_seq) AS entries,
            (SELECT count(*) FROM notification AS told WHERE told.dag_run_id = run.id AND told.seq = missed_seq) AS told
        FROM deadline JOIN dag_run AS run ON run.id = deadline.dag_run_id
        WHERE missed_at IS NOT NULL
        """
    )
    due = {(row["dag_id"], row["run_id"], row["missed_seq"]): row["task_id"] for row in missed}
    published = {
        (event.dag_id, event.run_id, event.seq): event.missed_deadline.task_id
        for event in e.run_states
        if event.missed_deadline is not UNSET
    }
    repeated = Counter((row["dag_id"], row["run_id"], row["missed_seq"]) for row in missed)
    return [
        *(f"{row['run_id']} has {row['entries']} entries for {row['missed_seq']}" for row in missed if row["entries"] != 1),
        *(f"{row['run_id']} told {row['told']} times of {row['missed_seq']}" for row in missed if row["told"] != 1),
        *(f"{key} is the number of {count} missed deadlines" for key, count in repeated.items() if count > 1),
        *(f"{key} was missed, but not published" for key in due.keys() - published.keys()),
        *(f"{key} was published, but not missed" for key in published.keys() - due.keys()),
        *(f"{key} names {published[key]}" for key in due.keys() & published.keys() if (published[key] or None) != due[key]),
    ]
