"""An admission says in its transaction up to which commit it sees its queue, at least, and what time it takes it to be."""

from tests.storms.replace import replace
from tidegate.schemas.queries import pools
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import PoolView

NOTE = """
    SELECT
        set_config('limits.looked', (SELECT coalesce(max(seq), 0)::text FROM limits_commit), true),
        set_config('limits.looked_at', $1::timestamptz::text, true)
"""


def note_looks() -> None:
    """Before it looks at anything: what was committed by then it cannot have missed."""
    look = pools.read

    async def noting(db: Db, name: str, parallelism: int) -> PoolView:
        await db.execute(NOTE, db.now)
        return await look(db, name, parallelism)

    replace(pools, "read", noting)
