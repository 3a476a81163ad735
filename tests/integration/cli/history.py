"""What happened before a command is called: through the engine, as a daemon would have done it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import anyio
import asyncpg
import msgspec
from msgspec import UNSET, UnsetType

from tests.tokens import token_of
from tidegate.daemon.engine import Applied, Batch, apply
from tidegate.daemon.postgres.database import Database
from tidegate.events.publisher import Outcome
from tidegate.handlers.dag_file_changed import ABSENT_SCANS
from tidegate.schemas.authoring.build import build
from tidegate.schemas.dag import BACKENDS, ImportProblem, ParsedFile
from tidegate.schemas.message import BackfillDue, Message, RetryDue, RunReconsidered, ScheduleDue, SubmissionAccepted, TasksReady
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.queries import clock, leases, runs, submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Away, Job, Terms
from tidegate.schemas.queries.submissions import ClaimedAttempt
from tidegate.schemas.wire.event import PRODUCER_SOURCE, DatasetUpdated, EventId, TaskFinished

HOST = "worker-1"
DAEMON = f"{HOST} (pid 4711)"
"""Who does what a daemon would have done."""

DAILY = """
from datetime import timedelta
from tidegate import Dag, Dataset

flights, weather, delays = Dataset("lake://flights"), Dataset("lake://weather"), Dataset("lake://delays")
with Dag("daily_delays", schedule=flights & weather, description="Delays of a day", tags=["example"]) as dag:
    join = dag.command("join", ["true"], retries=1, retry_delay=timedelta(seconds=0))
    join >> dag.sql("report", "SELECT 1", outlets=[delays]) >> dag.empty("done")
"""


class History:
    """One database, and what happens to it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def file(self, source: str = DAILY, path: str = "daily.py") -> None:
        """A DAG file was changed."""
        specs = tuple(dag.spec() for dag in build(source, path))
        await self._apply(ParsedFile(path=path, digest=uuid4().hex, source=source, dags=specs))

    async def broken_file(self, path: str, reason: str, line: int | None = None) -> None:
        problem = ImportProblem(reason=reason, line=line)
        await self._apply(ParsedFile(path=path, digest=uuid4().hex, problem=problem))

    async def updated(
        self, uri: str, event_id: str = "1", extra: dict[str, Any] | None = None, occurred_at: datetime | None = None
    ) -> None:
        """A dataset got new data."""
        await self._apply(DatasetUpdated(uri=uri, extra=extra or {}), id_=EventId("importer", event_id), at=occurred_at)

    async def hourly(self, uri: str) -> None:
        """An event each hour, for more than a day."""
        begin = datetime(2026, 1, 1, tzinfo=UTC)
        for hour in range(26):
            await self.updated(uri, f"hourly-{hour}", occurred_at=begin + timedelta(hours=hour))

    async def relayed(self) -> None:
        """The events of outlets are published, and ingested, until no further ones follow."""
        sql = "DELETE FROM outbox WHERE kind = 'dataset-updated' RETURNING event_id, payload"
        while rows := await self.database.pool.fetch(sql):
            for event_id, payload in rows:
                await self._apply(msgspec.json.decode(payload, type=DatasetUpdated), id_=EventId(PRODUCER_SOURCE, event_id))

    async def published(self) -> None:
        """No event waits to be published."""
        await self.database.pool.execute("DELETE FROM outbox")

    async def run(self) -> None:
        """A run of `daily_delays`, by the events it waits for."""
        await self.updated("lake://flights", "f-1", {"day": "2013-01-01"})
        await self.updated("lake://weather", "w-1")

    async def retention(self) -> None:
        """Everything that has come is older than it by now, but for what still counts."""
        for step in (
            "make_ledger_month(9912, 10001)",
            "begin_ledger_month(9912)",
            "retire_ledger_month(0, 2001, 'infinity', 10)",
        ):
            await self.database.pool.execute(f"SELECT {step}")

    async def clock(self, dag_id: str) -> None:
        """The runs of a DAG that are due by time start, and queued ones whose time has come."""
        await self._apply(ScheduleDue(dag_id=dag_id))

    async def reconsidered(self) -> None:
        """The runs that are to be looked at as a whole are."""
        for dag_run_id in await self.database.run(runs.to_reconsider, 100):
            await self._apply(RunReconsidered(dag_run_id=dag_run_id))

    async def admitted(self, pool: str = "default_pool", parallelism: int = 0) -> None:
        """What waits for slots of a pool is given them."""
        await self._apply(TasksReady(pool=pool, limit=100, parallelism=parallelism))

    async def backfilled(self) -> None:
        """The clock visits the backfills that are due, until they have nothing to do at once."""
        await self._clock_reaches_the_present()
        while due := await self.database.run(clock.due, "backfill", range(clock.SHARDS), 100):
            for (id_,) in due:
                await self._apply(BackfillDue(backfill_id=id_))

    async def _clock_reaches_the_present(self) -> None:
        """What a command made due just now is due here, where the estimate of the server's time may be late."""
        ((present,),) = await self.database.run(_present)
        while self.database.clock.known() < present:
            await anyio.sleep(0.005)

    async def worked(self) -> None:
        """Every task that waits for a slot is run, and succeeds."""
        for each in await self.attempts_begin():
            await self.attempt_ends(each.submission_id)

    async def retried(self, dag_run_id: int, task_index: int) -> None:
        """A task that failed is looked at for another try."""
        await self._apply(RetryDue(dag_run_id=dag_run_id, task_index=task_index))

    async def file_absent(self, path: str = "daily.py") -> None:
        """Two scans do not find a DAG file."""
        for _ in range(ABSENT_SCANS):
            await self._apply(ParsedFile(path=path, digest=None))

    async def daemon(self, **facts: Any) -> None:
        """A daemon shows life, for the whole test; `away` are servers that it cannot reach, the rest are its terms."""
        away = {server: Away(datetime.now(UTC), error) for server, error in facts.pop("away", {}).items()}
        job = Job(id=uuid4(), host=HOST, pid=4711, version="test", terms=Terms(**{"lease_ttl_s": 3600.0, **facts}))
        await self.database.run(leases.renew, job, away)

    async def no_daemon(self) -> None:
        await self.database.run(lambda db: db.execute("DELETE FROM job"))

    async def attempts_begin(self, host: str = HOST) -> Sequence[ClaimedAttempt]:
        """Submit all tasks that wait for a slot; they run on a host."""
        await self.admitted()
        claimed = [each for backend in sorted(set(BACKENDS.values())) for each in await self._claim(backend, host)]
        for each in claimed:
            await self._apply(SubmissionAccepted(submission_id=each.submission_id, handle={"spool": str(each.submission_id)}))
        return claimed

    async def _claim(self, backend: str, host: str) -> Sequence[ClaimedAttempt]:
        return await self.database.run(submissions.claim_intents, uuid4(), host, backend, 100)

    async def attempt_ends(
        self,
        submission_id: UUID,
        outcome: Outcome = "succeeded",
        reason: str = "",
        result: Any = None,
        follow: tuple[str, ...] | UnsetType = UNSET,
        log: LogExcerpt | UnsetType = UNSET,
    ) -> None:
        known = {"result": result, "follow": follow, "log": log}
        facts: dict[str, Any] = {"exit_code": 0 if outcome == "succeeded" else 1, **known}
        token = token_of(submission_id)
        finish = TaskFinished(submission_id=submission_id, token=token, outcome=outcome, reason=reason, **facts)
        await self._apply(finish, id_=EventId("runner", str(uuid4())))

    async def _apply(self, body: Any, *, id_: EventId | None = None, at: datetime | None = None) -> Applied:
        return await apply(self.database, Batch(messages=[Message(body=body, at=at or datetime.now(UTC), id=id_)]))


async def _present(db: Db) -> "list[asyncpg.Record]":
    return await db.fetch("SELECT clock_timestamp()")
