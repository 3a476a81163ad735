"""What is found around a DAG by who asks why it does not run. Nothing is locked."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.scheduling.inputs import sift
from tidegate.schemas.queries import leases, seen
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Incident, JobRow
from tidegate.schemas.queries.seen import AroundDag
from tidegate.schemas.view import DagView, Input


class FoundDag(msgspec.Struct, frozen=True, kw_only=True):
    """A DAG with all that waits for it, and what surrounds it. `incidents` are partitions that stand still."""

    now: datetime
    dag: DagView
    around: AroundDag
    incidents: Sequence[Incident] = ()
    daemons: Sequence[JobRow] = ()

    def inputs(self) -> tuple[Input, ...]:
        """Those of its events that count for its condition. Raises FilterError for one that cannot be read."""
        return sift(self.dag.graph, self.dag.pending, self.now).inputs


async def load(db: Db, dag_id: str) -> FoundDag:
    """Of a DAG that exists."""
    return FoundDag(
        now=db.now,
        dag=await seen.dag(db, dag_id),
        around=await seen.around_dag(db, dag_id),
        incidents=await leases.incidents(db),
        daemons=await leases.live(db),
    )
