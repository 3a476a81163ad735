"""A small world in a database: a healthy DAG and a rich one at work, and the duties of a daemon, called one after the other."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import anyio
import anyio.lowlevel
import asyncpg
import msgspec

from tests.fuzz.records import Sent
from tests.integration.engine.world import FixedClock, World
from tests.tokens import token_of
from tidegate.daemon.context import Context
from tidegate.daemon.duties import clock as clock_duty
from tidegate.daemon.duties import relay
from tidegate.daemon.duties.admit import PoolRotation, admit_pools
from tidegate.daemon.duties.clock import submit_due
from tidegate.daemon.duties.dispatch import Dispatcher
from tidegate.daemon.duties.expired_ids import ExpiredIds
from tidegate.daemon.duties.notify import Notifier
from tidegate.daemon.duties.observe import observe_round
from tidegate.daemon.duties.outbox_sinks import OutboxSinks
from tidegate.daemon.duties.receivers.delivery import Sent as Delivered
from tidegate.daemon.duties.reconsider import reconsider_batch
from tidegate.daemon.duties.sweep import (
    SilentAttempts,
    Warnings,
    count_lagging_backfills,
    delete_dead_daemons,
    delete_spent_markers,
    reconsider_waiting_runs,
    requeue_stuck_attempts,
)
from tidegate.daemon.intake.batches import PartitionBatch, key_of, read
from tidegate.daemon.intake.ingest import BatchSize, Reader, unchanged
from tidegate.daemon.intake.unread import UnreadPartitions
from tidegate.daemon.leases import HeldLeases, register, renew
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.postgres.low_watermark import OutboxWatermark
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import Backend, Handle, Phase, Status, SubmissionSpec
from tidegate.daemon.wake import Signals
from tidegate.events.outbox_sink import OutboxSink, RestingPartitions
from tidegate.events.sink import ProducerRecord
from tidegate.events.source import Partition, Record, Source
from tidegate.schemas.conditions.condition import AnyOf, DatasetRef, InputDeadlineSpec, PatternRef, Timing
from tidegate.schemas.dag import BACKENDS, CommandTask, DagSpec, DeadlineSpec, EmptyTask
from tidegate.schemas.message import RunRequested
from tidegate.schemas.params import ParamSpec
from tidegate.schemas.queries.leases import PARTITION, Job, LeaseSpec, Terms
from tidegate.schemas.receiver import Callback, On, WebhookReceiver
from tidegate.schemas.timetable.spec import Every
from tidegate.schemas.wire.event import Kind

A = DatasetRef("s://a")
HOOK = WebhookReceiver("https://example.org/hook")
COMMITTED = "SELECT next_offset FROM lease WHERE kind = 'partition' AND key = $1"
LONG_S = 1e6
"""The time to live of the daemon's lease: its row is as old as the world."""

HEALTHY = DagSpec(
    dag_id="good",
    schedule=A,
    tasks=(CommandTask(task_id="first", argv=("true",)), CommandTask(task_id="last", argv=("true",), upstream=("first",))),
)
RICH = DagSpec(
    dag_id="bad",
    schedule=AnyOf((A, PatternRef("s://t/*", where="n > 0", expire_after_s=3600))),
    timing=Timing(deadline=InputDeadlineSpec(at=time(3), fallback="alert")),
    timetable=Every(seconds=3600),
    max_active_runs=2,
    max_failed_runs=3,
    run_timeout_s=7200,
    on_paused="keep",
    params={"p": ParamSpec(default=1, schema={"type": "integer"})},
    deadlines=(DeadlineSpec(name="late", after_s=1800, since="queued_at"),),
    callbacks=tuple(Callback(on, HOOK) for on in (On.SUCCESS, On.FAILURE, On.DEADLINE)),
    tasks=(
        CommandTask(task_id="list", argv=("true",), pool="small"),
        CommandTask(
            task_id="each",
            argv=("{{ item }}",),
            upstream=("list",),
            over="list",
            retries=2,
            retry_delay_s=0,
            pool="small",
            max_active_per_run=2,
            execution_timeout_s=600,
            callbacks=(Callback(On.RETRY, HOOK),),
        ),
        EmptyTask(task_id="join", upstream=("each",), depends_on_past=True),
        CommandTask(
            task_id="out", argv=("true",), upstream=("join",), outlets=("s://b",), deadlines=(DeadlineSpec(name="x", after_s=9),)
        ),
    ),
)


class FreshLeases(HeldLeases):
    """Leases that the daemon never loses."""

    @property
    def fresh(self) -> bool:
        return True


class OneConnection:
    """In the place of a pool: every transaction is a part of that of the test, which is rolled back."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self.connection = connection
        self._lock = anyio.Lock()

    @asynccontextmanager
    async def acquire(self, **_: float) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
        async with self._lock, self.connection.transaction():
            yield self.connection

    async def fetch(self, sql: str, *arguments: Any) -> "list[asyncpg.Record]":
        return await self.connection.fetch(sql, *arguments)

    async def expire_connections(self) -> None:
        """The connection stays."""

    def get_size(self) -> int:
        return 1

    def get_max_size(self) -> int:
        return 1

    def get_idle_size(self) -> int:
        """An acquisition that fails does so by an error of the server: no other one is needed for long."""
        return 1


class Cluster:
    """A backend whose submissions have succeeded as soon as they are asked for."""

    host: str | None = None
    visibility_grace_s = 0.0

    def __init__(self, name: str) -> None:
        self.name = name

    async def find(self, _submission_id: UUID) -> Handle | None:
        return None

    async def submit(self, spec: SubmissionSpec) -> Handle:
        msgspec.json.encode(spec.run)
        return {"id": str(spec.submission_id)}

    async def confirm(self, _recorded: Mapping[UUID, int | None]) -> None:
        """All has succeeded."""

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        return {id_: Status(phase=Phase.SUCCEEDED, result=[1, "two"]) for id_ in handles}

    async def check(self) -> None:
        """It starts whatever it is given."""

    async def running(self) -> Mapping[UUID, Handle]:
        """Nothing runs on this host."""
        return {}

    async def kill(self, _handle: Handle) -> None:
        """There is nothing to stop."""


class Receiver:
    """A sender of notifications that delivers everything."""

    async def send(self, _claimed: Any) -> Delivered:
        return Delivered()


class Topics:
    """A sink that acknowledges everything; `messages` has what it got."""

    def __init__(self) -> None:
        self.messages: list[ProducerRecord] = []
        self.is_connected = False
        self.resting = RestingPartitions()

    async def connect(self) -> None:
        self.is_connected = True

    async def close(self) -> None:
        self.is_connected = False

    async def settle(self) -> None:
        self.resting.end_rests(anyio.current_time())

    async def send_available(self, messages: Sequence[ProducerRecord]) -> Sequence[Partition | None]:
        self.messages += messages
        return [None] * len(messages)


class SmallWorld:
    """The world as a daemon has it: its duties, and what it reads from the topics."""

    def __init__(
        self, connection: "asyncpg.Connection[asyncpg.Record]", settings: Settings, leases: HeldLeases, at: datetime
    ) -> None:
        self.connection = connection
        self.pool = OneConnection(connection)
        self.database = Database(cast("asyncpg.Pool[asyncpg.Record]", self.pool), leases.job.id)
        self.clock = FixedClock(at)
        self.database.clock = cast(Any, self.clock)
        self.context = Context(
            settings=settings,
            database=self.database,
            held_leases=leases,
            signals=Signals(),
            outages=Outages(),
            backends={name: cast(Backend, Cluster(name)) for name in BACKENDS.values()},
        )
        self.watermark = OutboxWatermark()
        self.sink = Topics()
        self.sinks = OutboxSinks(lambda _: cast(OutboxSink, self.sink), "")
        self.offsets = Counter[Kind]()
        self._began_at = at

    @asynccontextmanager
    async def undone(self) -> AsyncIterator[None]:
        """What happens inside is rolled back, and forgotten."""
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            yield
        finally:
            await transaction.rollback()
            self.database.clear_memory()
            self.offsets.clear()
            self.pool.connection = self.connection
            await self.publish_to(Topics())
            self.clock.at, self.watermark = self._began_at, OutboxWatermark()
            self.context = msgspec.structs.replace(self.context, outages=Outages())

    async def publish_to(self, sink: Topics) -> None:
        self.sink = sink
        await self.sinks.hold({})

    async def take(self, kind: Kind, *sent: Sent | Mapping[str, Any]) -> None:
        """Records come in, or bodies of records; a batch has all of them."""
        partition = Partition(self.context.settings.topic(kind), 0)
        records = [each if isinstance(each, Sent) else Sent([], msgspec.json.encode(each)) for each in sent]
        first, lease = self.offsets[kind], self.context.held_leases.of(PARTITION)[key_of(partition)]
        found = [
            Record(partition.topic, 0, first + n, self.clock.at, None, each.headers, each.value) for n, each in enumerate(records)
        ]
        self.offsets[kind] += len(found)

        async def rest() -> None:
            """From the committed offset on, as a reader does after an outage."""
            unread_partitions = UnreadPartitions(self.context.outages, partition.topic)
            reader = Reader(kind, self.context, cast(Source, None), unchanged, BatchSize(1000), unread_partitions)
            reader.positions[partition] = start = (await self.rows(COMMITTED, lease.key))[0][0]
            if left := [read(kind, record) for record in found[start - first :]]:
                await reader._commit([PartitionBatch(partition, lease.epoch, left)])

        await self.step(rest)

    async def dispatch(self) -> None:
        """Submit every intent, and record the handles."""
        for backend in self.context.backends.values():
            dispatcher = Dispatcher(self.context, backend)
            for claim, submit in (
                (dispatcher._claim_intents, dispatcher._submit_batch),
                (dispatcher._claim_abandoned, dispatcher._resolve_batch),
            ):
                await dispatcher._claim_and_submit(claim, submit)
            if dispatcher._accepted:
                await self.context.submit_messages(dispatcher._accepted)

    async def work(self) -> None:
        """Each duty once, in an order in which a task is admitted, submitted and ends."""
        await self.step(submit_due, self.context)
        await self.step(reconsider_batch, self.context, set())
        await self.step(admit_pools, self.context, PoolRotation())
        await self.step(self.dispatch)
        await self.step(observe_round, self.context)

    async def sweep(self) -> None:
        """The duties that clean up and tell others."""
        silent_attempts = SilentAttempts()
        for _ in range(2):  # Of an attempt, it needs two looks.
            await self.step(silent_attempts.fail_silent_attempts, self.context)
        await self.step(requeue_stuck_attempts, self.context)
        await self.step(count_lagging_backfills, self.context)
        await self.step(reconsider_waiting_runs, self.context)
        await self.step(Warnings().warn_of_missing_pools, self.context)
        await self.step(ExpiredIds().delete, self.context)
        await self.step(delete_dead_daemons, self.context)
        await self.step(delete_spent_markers, self.context)
        await self.step(self.notify)
        await self.step(self.relay)

    async def relay(self) -> None:
        """Publish what is in the outbox, also that of sinks that connect at a later try."""
        while await relay.relay_batch(self.context, self.sinks, self.watermark) or self.sinks.connecting:
            await anyio.lowlevel.checkpoint()

    async def notify(self) -> None:
        """Send the notifications that are due."""
        async with anyio.create_task_group() as tg:
            senders: Mapping[str, Any] = dict.fromkeys(("email", "webhook", "function"), Receiver())
            await Notifier(self.context, senders, tg).send_due()

    async def step(self, duty: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """One round of a duty; errors pass."""
        await duty(*arguments)

    async def rows(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.connection.fetch(sql, *arguments)]


def settings_of(dsn: str, home: Path) -> Settings:
    return Settings(postgres_dsn=dsn, kafka_servers="h:1", topic_prefix="fuzz.", spool_dir=str(home), dags_folder=str(home))


@asynccontextmanager
async def small_world(dsn: str, home: Path, kind: type[SmallWorld] = SmallWorld) -> AsyncIterator[SmallWorld]:
    """The world in a migrated database, whose every change can be rolled back."""
    settings, at = settings_of(dsn, home), datetime.now(UTC).replace(microsecond=0)
    async with connect(dsn) as database:
        await populate(World(database, at))
        leases = FreshLeases(Job(uuid4(), settings.host, 1, "fuzz", Terms(lease_ttl_s=LONG_S)))
        topics = [LeaseSpec(PARTITION, f"{settings.topic(kind)}/0", 0) for kind in (Kind.DATASET_UPDATED, Kind.TASK_FINISHED)]
        await register(database, [*clock_duty.leases(), *relay.leases(), *topics])
        await renew(database, leases)
    async with connect(dsn) as database, database.pool.acquire() as connection:
        raw = cast("asyncpg.Connection[asyncpg.Record]", connection)
        yield kind(raw, settings, leases, at + timedelta(seconds=1))


async def populate(world: World) -> None:
    """Runs that have ended, run and wait; attempts in each state; pending events, results, deadlines and notifications."""
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('small', 3)")
    await world.file(HEALTHY, path="good.py")
    await world.file(RICH, path="bad.py")
    await world.updated("s://a")
    await world.work()
    await world.work()
    await world.updated("s://a")
    await world.admit()
    await world.submit()
    first = await attempt_of(world, "list")
    await world.finish(first, result=[1, {"two": 2}, None])
    await world.admit()
    await world.submit()
    await world.finish(await attempt_of(world, "each"), "failed")
    await world.updated("s://t/1", {"n": 1})
    await world.updated("s://t/2", {"n": 2})
    await world.tell(RunRequested(dag_id="bad", run_id="by_hand", conf={"p": 2}))
    await world.tick()


async def attempt_of(world: World | SmallWorld, task_id: str) -> UUID:
    rows = await world.rows(
        "SELECT submission_id FROM submission JOIN task_instance AS task USING (dag_run_id, task_index)"
        " WHERE submission.state = 'accepted' AND task.task_id = $1 ORDER BY dag_run_id DESC, task_index LIMIT 1",
        task_id,
    )
    return cast(UUID, rows[0][0])


def end_of(attempt: UUID, outcome: str = "succeeded", **facts: Any) -> dict[str, Any]:
    """The event that ends an attempt."""
    return {"submission_id": str(attempt), "token": token_of(attempt), "outcome": outcome, **facts}
