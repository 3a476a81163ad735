"""The engine on a real Postgres with a clock that tests move: what a daemon's duties do, one step at a time."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from tests.tokens import token_of
from tidegate.daemon.containment import apply_holding
from tidegate.daemon.duties.clock import KINDS
from tidegate.daemon.engine import Applied, Batch
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.postgres.low_watermark import LowWatermark
from tidegate.daemon.postgres.server_clock import ServerClock
from tidegate.schemas.dag import BACKENDS, DagSpec, ParsedFile
from tidegate.schemas.message import Message, RunReconsidered, SubmissionAccepted, TasksReady
from tidegate.schemas.queries import clock, pools, runs, submissions, writers
from tidegate.schemas.wire.event import DatasetUpdated, EventId, TaskFinished

SHARDS = range(clock.SHARDS)
_NUMBERS = count(1)
MOST_LOOKS = 50
"""So often a moment is looked at by the clock at most."""
OUTCOMES = """
    SELECT outcome, count(*) FROM (
        SELECT 'pending' AS outcome FROM dataset_dag_run_queue WHERE target_dag_id = $1
        UNION ALL SELECT 'consumed' FROM dagrun_dataset_event WHERE dag_id = $1
        UNION ALL SELECT reason FROM discarded_dataset_event WHERE dag_id = $1
    ) AS each GROUP BY outcome ORDER BY outcome
"""


class FixedClock:
    """In the place of the server's clock: the same for all transactions until a test moves it."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    async def now(self, _connection: object) -> datetime:
        return self.at

    def told(self, _said: datetime) -> datetime:
        return self.at

    def known(self) -> datetime:
        return self.at


class Ahead(ServerClock):
    """The clock of the server, and the time that has passed for a test alone."""

    def __init__(self, ahead: timedelta) -> None:
        super().__init__()
        self._ahead = ahead

    def told(self, sample: datetime) -> datetime:
        return sample + self._ahead

    def extrapolated(self) -> datetime:
        return super().extrapolated() + self._ahead


class World:
    """One database; `at` is its time."""

    def __init__(self, database: Database, at: datetime) -> None:
        self.database = database
        self.clock = FixedClock(at)
        self._events = LowWatermark()
        database.clock = self.clock  # type: ignore[assignment]  # what it has is all that is asked for

    @property
    def at(self) -> datetime:
        return self.clock.at

    async def tell(self, *bodies: Any, id_: str | None = None, source: str = "test", ahead: timedelta = timedelta()) -> Applied:
        """Messages of one type, as a batch, from a `source`; `ahead` is how far the clock of their producer is."""
        identity = None if id_ is None else EventId(source, id_)
        applied = await apply_holding(
            self.database, Batch(messages=[Message(body=body, at=self.at + ahead, id=identity) for body in bodies])
        )
        self._events.advance(await self.database.autocommit(writers.of_events))
        self.database.memory.low_watermarks.settle(self._events.at)
        return applied

    async def file(self, *specs: DagSpec, path: str = "dags.py") -> None:
        """A DAG file is new or changed."""
        await self.tell(ParsedFile(path=path, digest=uuid4().hex, dags=specs))

    async def updated(self, uri: str, extra: dict[str, Any] | None = None, ahead: timedelta = timedelta()) -> None:
        """A dataset got new data."""
        await self.tell(DatasetUpdated(uri=uri, extra=extra or {}), id_=f"update-{next(_NUMBERS)}", ahead=ahead)

    async def outcomes(self, dag_id: str = "d") -> dict[str, int]:
        """How many events are pending for a DAG, were consumed, or discarded for which reason."""
        rows = await self.rows(OUTCOMES, dag_id)
        return {row[0]: row[1] for row in rows}

    async def go_to(self, at: datetime) -> None:
        """Let time pass, and every moment in between be looked at by the clock. Nothing is due for ever."""
        looks = Counter[datetime]()
        while True:
            first = min((await self.database.run(clock.next_due, SHARDS)).values(), default=None)
            if first is None or first > at:
                break
            self.clock.at = max(first, self.at)
            looks[self.at] += 1
            assert looks[self.at] < MOST_LOOKS, await self.rows("SELECT dag_id, due_at FROM dag WHERE due_at <= $1", self.at)
            await self.tick()
        self.clock.at = at
        await self.tick()

    async def wait(self, **time: float) -> None:
        await self.go_to(self.at + timedelta(**time))

    async def tick(self) -> None:
        """Apply everything that is due."""
        for kind, message in KINDS.items():
            if found := await self.database.run(clock.due, kind, SHARDS, 1000):
                await self.tell(*(message(*key) for key in found))
        await self.reconsider()

    async def reconsider(self) -> None:
        while ids := await self.database.run(runs.to_reconsider, 100):
            await self.tell(*(RunReconsidered(dag_run_id=id_) for id_ in ids))

    async def admit(self, **limits: Any) -> None:
        """Admit every task that gets a slot."""
        for pool in await self.database.run(pools.in_demand):
            await self.tell(TasksReady(pool=pool, **{"limit": 1000, **limits}))

    async def submit(self) -> None:
        """Submit every intent; an intent that should be killed ends."""
        for killed in await self.database.run(submissions.killed_intents):
            await self.finish(killed.submission_id, "killed", reason=killed.kill_reason)
        me = uuid4()
        for backend in sorted(set(BACKENDS.values())):
            claim = partial(submissions.claim_intents, owner=me, host="here", backend=backend, limit=1000)
            for claimed in await self.database.run(claim):
                await self.tell(SubmissionAccepted(submission_id=claimed.submission_id, handle={}))

    async def finish(self, attempt: UUID, outcome: Any = "succeeded", **facts: Any) -> None:
        """An attempt ends."""
        await self.tell(TaskFinished(submission_id=attempt, token=token_of(attempt), outcome=outcome, **facts))
        await self.reconsider()

    async def work(self, outcome: Any = "succeeded", **facts: Any) -> None:
        """Everything that waits is admitted, submitted and ends so; once."""
        await self.admit()
        await self.submit()
        for attempt in await self.attempts():
            await self.finish(attempt, outcome, **facts)

    async def attempts(self) -> list[UUID]:
        """Those at work, in the order of their runs and tasks."""
        sql = "SELECT submission_id FROM submission WHERE state = 'accepted' ORDER BY dag_run_id, task_index"
        return [row[0] for row in await self.rows(sql)]

    async def rows(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.database.pool.fetch(sql, *arguments)]

    async def runs(self, dag_id: str = "d") -> list[tuple[str, str]]:
        """(run_id, state) in the order of the DAG's runs."""
        return [
            (row[0], row[1])
            for row in await self.rows("SELECT run_id, state::text FROM dag_run WHERE dag_id = $1 ORDER BY order_at, id", dag_id)
        ]

    async def tasks(self, run_id: str, dag_id: str = "d") -> dict[str, str]:
        sql = """
            SELECT task.task_id, task.state::text FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id
            WHERE run.dag_id = $1 AND run.run_id = $2 AND task.task_index BETWEEN 0 AND 1048575 ORDER BY task.task_index
        """
        return {row[0]: row[1] for row in await self.rows(sql, dag_id, run_id)}


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]  # as many parts as a date has


def states(found: Sequence[tuple[str, str]]) -> list[str]:
    return [state for _, state in found]


def each(found: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    return (row[0] for row in found)
