"""DAGs under their locks, with as much of what waits for them as their next decision needs."""

from collections.abc import Collection, Mapping

from tidegate.handlers.scheduling.read_plan import ReadReason, read_plan
from tidegate.schemas.queries import dags
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import DagView, LockedDag

ANY_REASON = ReadReason()


async def lock_dags(db: Db, dag_ids: Collection[str], reason: ReadReason = ANY_REASON) -> tuple[DagView, ...]:
    """Lock DAGs in the global order and read them. Ids that do not exist are left out."""
    return await read_dags(db, await dags.lock(db, dag_ids), reason)


async def read_dags(db: Db, locked: Mapping[str, LockedDag], reason: ReadReason = ANY_REASON) -> tuple[DagView, ...]:
    """Read DAGs that are locked already."""
    if not locked:
        return ()
    activity = await dags.activity(db, locked)
    plans = {dag_id: read_plan(dag, activity[dag_id], reason, db.now) for dag_id, dag in locked.items()}
    return await dags.read(db, locked, activity, plans)
