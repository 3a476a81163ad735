"""The facts that the explanation of a DAG starts from."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.scheduling.inputs import inspect_events
from tidegate.schemas.explain.facts import DagStatus
from tidegate.schemas.queries import facts, leases
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Incident, JobRow
from tidegate.schemas.view import DagView, Input


class DagFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A DAG with its pending events. `incidents` are halted partitions."""

    now: datetime
    dag: DagView
    status: DagStatus
    incidents: Sequence[Incident] = ()
    daemons: Sequence[JobRow] = ()

    def inputs(self) -> tuple[Input, ...]:
        """The pending events that count for the condition. Raises FilterError for a condition that cannot be evaluated."""
        return inspect_events(self.dag.graph, self.dag.pending, self.now).inputs


async def load(db: Db, dag_id: str) -> DagFacts:
    """Of a DAG that exists."""
    return DagFacts(
        now=db.now,
        dag=await facts.dag_view(db, dag_id),
        status=await facts.dag_status(db, dag_id),
        incidents=await leases.incidents(db),
        daemons=await leases.live(db),
    )
