"""What happens before notifications are sent: DAGs, runs and deadlines, through the engine; and what became of them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import anyio
import msgspec

from tests.integration.cli.history import History
from tidegate.daemon.engine import Applied, Batch, apply
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.message import DeadlineDue, Message, RunRequested, ScheduleDue
from tidegate.schemas.wire.event import DagRunStateChanged, DatasetUpdated, EventId

PATIENCE_S = 60.0

FILE = """
from datetime import time, timedelta
from tidegate import Dag, Dataset, Deadline, Email, InputDeadline, Timed, Webhook
{functions}
with Dag("d", {dag}) as dag:
    dag.{task}
"""


class Notification(NamedTuple):
    """A row."""

    on: str
    kind: str
    state: str
    tries: int
    reason: str


class NotifiedDag:
    """A DAG `d` with one task `a`, and its runs."""

    def __init__(self, database: Database, history: History) -> None:
        self.database = database
        self.history = history

    async def dag(self, dag: str = "", *, task: str = "empty('a')", functions: str = "") -> None:
        """Its options, and how its task is written."""
        await self.history.file(FILE.format(dag=dag, task=task, functions=functions), "d.py")

    async def run(self, run_id: str = "r1", **facts: Any) -> None:
        await self.apply(RunRequested(dag_id="d", run_id=run_id, conf={}, **facts))

    async def inputs_are_late(self, *databases: Database) -> None:
        """One of two inputs comes, the other does not; then the clocks of these daemons say what time it is."""
        await self.apply(DatasetUpdated(uri="s://a"), EventId("test", "1"))
        await anyio.sleep(0.25)
        async with anyio.create_task_group() as tg:
            for database in databases or (self.database,):
                tg.start_soon(apply, database, batch(ScheduleDue(dag_id="d")))

    async def attempt(self) -> UUID:
        """The attempt of the task runs."""
        (claimed,) = await self.history.attempts_begin()
        return claimed.submission_id

    async def ends(self, submission_id: UUID, outcome: Any = "succeeded", reason: str = "") -> None:
        await self.history.attempt_ends(submission_id, outcome, reason)

    async def apply(self, body: Any, id_: EventId | None = None) -> Applied:
        return await apply(self.database, batch(body, id_=id_))

    async def deadlines_pass(self, database: Database | None = None) -> Applied:
        """The clock tells of every deadline there is."""
        ids = [row[0] for row in await self.rows("SELECT id FROM deadline")]
        return await apply(database or self.database, batch(*[DeadlineDue(deadline_id=id_) for id_ in ids]))

    async def rows(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.database.pool.fetch(sql, *args)]

    async def deadlines(self) -> list[tuple[Any, ...]]:
        """By name: whether it was met, whether it was missed."""
        return await self.rows("SELECT name, met_at IS NOT NULL, missed_at IS NOT NULL FROM deadline ORDER BY id")

    async def journal(self) -> list[tuple[Any, ...]]:
        return await self.rows("SELECT seq, state::text, reason FROM run_state_log ORDER BY dag_run_id, seq")

    async def states_of(self, run_id: str) -> list[tuple[Any, ...]]:
        """The numbered states of a run."""
        sql = "SELECT seq, log.state::text FROM run_state_log AS log JOIN dag_run ON id = dag_run_id WHERE run_id = $1"
        return await self.rows(f"{sql} ORDER BY seq", run_id)

    async def published(self) -> Sequence[DagRunStateChanged]:
        """The events about runs that wait for Kafka."""
        rows = await self.rows("SELECT payload FROM outbox WHERE kind = 'dag-run-state' ORDER BY id")
        return [msgspec.json.decode(payload, type=DagRunStateChanged) for (payload,) in rows]

    async def notifications(self) -> list[Notification]:
        rows = await self.rows(
            "SELECT context ->> 'on', kind, state::text, tries, reason FROM notification ORDER BY created_at, id"
        )
        return [Notification(*row) for row in rows]

    async def until(self, *states: str) -> list[Notification]:
        """Wait until the notifications are in these states."""
        with anyio.fail_after(PATIENCE_S):
            while True:
                found = await self.notifications()
                if [each.state for each in found] == list(states):
                    return found
                await anyio.sleep(0.01)


def batch(*bodies: Any, id_: EventId | None = None) -> Batch:
    return Batch(messages=[Message(body=body, at=datetime.now(UTC), id=id_) for body in bodies])
