"""The tasks that have waited longest for slots of a pool."""

from collections.abc import Mapping
from datetime import datetime

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.view import Candidate, LimitOwner, StarvingTask

_SQL = load("starving")


async def longest_waiting(db: Db, pool: str, since: datetime, wanted: int, slots: int) -> list[StarvingTask]:
    """Up to `wanted` task instances that have waited since before `since`, oldest first, each for at most `slots` slots.

    Each is blocked by missing slots only; together they may exceed their limits. A DAG that is paused, or at its limits, may have
    all tasks of the first search; where more wait, the second one steps from run to run.
    """
    by_age, more_wait = await _find(db, pool, since, wanted, slots, by_run=False)
    if not more_wait:
        return by_age
    by_run, _ = await _find(db, pool, since, wanted, slots, by_run=True)
    return by_run or by_age


async def _find(db: Db, pool: str, since: datetime, wanted: int, slots: int, *, by_run: bool) -> tuple[list[StarvingTask], bool]:
    """The tasks that one search finds, and whether it looked at fewer than wait."""
    rows = await db.fetch(_SQL["longest_waiting"], pool, since, wanted, slots, by_run)
    found = [StarvingTask(Candidate(*row[:3]), _limits_left(row[0], *row[3:])) for row in rows if row[0] is not None]
    return found, len(found) < len(rows)


def _limits_left(
    dag_run_id: int,
    dag_id: str,
    task_id: str,
    of_run: int,
    in_run: int | None,
    in_dag: int | None,
    backfill_id: int | None,
    of_backfill: int | None,
) -> Mapping[LimitOwner, int]:
    limits: Mapping[LimitOwner, int | None] = {
        (dag_run_id, ""): of_run,
        (dag_run_id, task_id): in_run,
        (dag_id, task_id): in_dag,
        (f"backfill {backfill_id}", ""): of_backfill,
    }
    return {owner: left for owner, left in limits.items() if left is not None}
