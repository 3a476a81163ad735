"""The history of a DAG that is deleted, in portions: one transaction for all rows would take too long.

What a portion leaves is complete enough for the DAG to go on if it comes back into a file. The audit expects no outcome of an
event that came before `history_deleted_at`.
"""

from collections.abc import Mapping, Sequence

from tidegate.schemas.effect.dag import DeleteHistory
from tidegate.schemas.message import HistoryPart
from tidegate.schemas.queries import tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("dag_history")

_DELETE_ROWS: Mapping[HistoryPart, str] = {
    HistoryPart.CONSUMED: _SQL["delete_consumed"],
    HistoryPart.DISCARDED: _SQL["delete_discarded"],
    HistoryPart.PENDING: _SQL["delete_pending"],
    HistoryPart.DATES: _SQL["delete_dates"],
}

ROWS_PER_RUN = 20
"""The most tasks of a portion of runs for each of its runs, and the rows of a portion of other rows for each."""


async def next_part(db: Db, dag_id: str, runs: int, *, has_begun: bool) -> HistoryPart | None:
    """The part that is deleted next; None if the rest is small. Once portions were deleted, almost nothing is left."""
    portion = ROWS_PER_RUN * runs
    limits = (0, 0) if has_begun else (runs, portion)
    ((part,),) = await db.fetch(_SQL["next_part"], dag_id, *limits, portion)
    return None if part is None else HistoryPart(part)


async def delete(db: Db, effects: Sequence[DeleteHistory]) -> None:
    """Delete a portion of these parts."""
    for effect in effects:
        rows = ROWS_PER_RUN * effect.runs
        if effect.part is HistoryPart.RUNS:
            await db.execute(_SQL["delete_runs"], await _oldest_runs(db, effect.dag_id, effect.runs, rows))
        elif effect.part is HistoryPart.VERSIONS:
            await db.execute(_SQL["delete_versions"], effect.dag_id, effect.runs)
        else:
            await db.execute(_DELETE_ROWS[effect.part], effect.dag_id, rows)
        await db.execute(_SQL["mark"], effect.dag_id)


async def _oldest_runs(db: Db, dag_id: str, most: int, instances: int) -> Sequence[int]:
    return await tasks.first_runs(db, [row[0] for row in await db.fetch(_SQL["oldest_runs"], dag_id, most)], instances)


async def delete_all_runs(db: Db, dag_ids: Sequence[str]) -> None:
    await db.execute(_SQL["delete_runs"], [row[0] for row in await db.fetch(_SQL["all_runs"], dag_ids)])
