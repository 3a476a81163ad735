"""The state of the installation as metrics have it: bounded reads, which cost the same for a small and a large backlog."""

from collections.abc import Sequence

import msgspec

from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("metrics")

MAX_POOLS, READ_OF_POOL = 100, 100


class ActiveRuns(msgspec.Struct, frozen=True):
    """How many runs of a type are in a state."""

    run_type: str
    state: str
    runs: int


class PoolWait(msgspec.Struct, frozen=True):
    """How long the first task of a pool has waited."""

    pool: str
    seconds: float


class Counts(msgspec.Struct, frozen=True):
    """Live daemons, notifications that are to be sent and that were given up, held DAGs, and open losses of commits."""

    daemons: int
    notifications_open: int
    notifications_failed: int
    held_dags: int
    losses: int


async def active_runs(db: Db) -> Sequence[ActiveRuns]:
    """The runs that have not ended, by type and state."""
    return [ActiveRuns(*row) for row in await db.fetch(_SQL["active_runs"], COUNTED)]


async def waits_of_pools(db: Db) -> Sequence[PoolWait]:
    """The longest wait in each of the first pools."""
    return [PoolWait(*row) for row in await db.fetch(_SQL["waits_of_pools"], MAX_POOLS, READ_OF_POOL)]


async def counts(db: Db) -> Counts:
    """Each count ends at `COUNTED`."""
    (row,) = await db.fetch(_SQL["counts"], COUNTED)
    return Counts(*row)
