"""The clock of real daemons, on real time: it acts when something about pending events is due, and once if several daemons do."""

import os
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from tests.integration.engine.world import Ahead
from tests.shapes import spec
from tidegate.daemon.busy_intake import BusyIntake
from tidegate.daemon.context import Context
from tidegate.daemon.duties import clock
from tidegate.daemon.engine import Applied, Batch
from tidegate.daemon.leases import HeldLeases, register, renew
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.settings import Settings
from tidegate.daemon.wake import Signals
from tidegate.schemas.conditions.condition import AllOf, DatasetRef, InputDeadlineSpec, Timing
from tidegate.schemas.dag import DagSpec, ParsedFile
from tidegate.schemas.error import TooSlowError
from tidegate.schemas.message import ScheduleDue
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Job, Terms
from tidegate.schemas.wire.event import DatasetUpdated, EventId

BOTH = AllOf((DatasetRef("s://a"), DatasetRef("s://never")))


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[Database]:
    async with connect(dsn) as database:
        yield database


async def daemon(database: Database, dsn: str) -> Context:
    """One that has its share of the clock."""
    settings = Settings(postgres_dsn=dsn, kafka_servers="localhost:1", lease_ttl_s=3600.0)
    held_leases = HeldLeases(Job(uuid4(), settings.host, os.getpid(), "test", Terms(lease_ttl_s=settings.lease_ttl_s)))
    context = Context(
        settings=settings, database=database, held_leases=held_leases, signals=Signals(), outages=Outages(), backends={}
    )
    await register(database, clock.leases())
    await renew(database, held_leases)
    return context


async def wait_for(context: Context, *specs: DagSpec) -> None:
    """These DAGs are there, and the first event that they wait for."""
    await context.submit_messages([ParsedFile(path="dags.py", digest="1", dags=specs)])
    await context.submit_messages([DatasetUpdated(uri="s://a")], [EventId("test", "1")])


async def test_the_clock_sleeps_until_a_deadline_of_inputs_and_says_that_it_was_missed(database: Database, dsn: str) -> None:
    context = await daemon(database, dsn)
    timing = Timing(deadline=InputDeadlineSpec(after_s=3600.0, fallback="alert"))
    await wait_for(context, spec("t!", schedule=BOTH, timing=timing))

    with capture_logs() as logs:
        first = await clock.submit_due(context)
        early = len(logs)
        database.clock = Ahead(timedelta(seconds=first + 1))
        rest = await clock.submit_due(context)

    assert (0 < first <= 3600, early, rest) == (True, 0, clock.MAX_SLEEP_S)
    assert [(line["dag_id"], line["fallback"]) for line in logs if line["event"] == "inputs_missed_deadline"] == [("d", "alert")]


async def test_a_message_that_is_too_slow_stops_no_other(database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its kind and of the kinds after it; it is tried again at the next turn."""
    context = await daemon(database, dsn)
    apply = Context.apply

    async def apply_slowly(self: Context, batch: Batch) -> Applied:
        if any(message.body == ScheduleDue(dag_id="slow") for message in batch.messages):
            raise TooSlowError("too slow", server="Postgres")
        return await apply(self, batch)

    timing = Timing(deadline=InputDeadlineSpec(after_s=0.1, fallback="alert"))
    await wait_for(context, *(spec("t!", dag_id=id_, schedule=BOTH, timing=timing) for id_ in ("a", "slow", "z")))
    monkeypatch.setattr(Context, "apply", apply_slowly)
    submitted: list[str] = []
    submit = clock._submit_kind

    async def submit_kind(context: Context, shards: Sequence[int], kind: str) -> None:
        submitted.append(kind)
        await submit(context, shards, kind)

    async def all_due(*_: object) -> tuple[dict[str, datetime], datetime]:
        now = datetime.now(UTC)
        return dict.fromkeys(clock.KINDS, now), now

    monkeypatch.setattr(clock, "_submit_kind", submit_kind)
    monkeypatch.setattr(clock, "_next_due", all_due)
    await anyio.sleep(0.15)
    with capture_logs() as logs, pytest.raises(TooSlowError):
        await clock.submit_due(context)

    assert sorted(line["dag_id"] for line in logs if line["event"] == "inputs_missed_deadline") == ["a", "z"]
    assert submitted == list(clock.KINDS)


async def test_the_next_due_times_are_read_again_only_after_something_was_due(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = await daemon(database, dsn)
    timing = Timing(deadline=InputDeadlineSpec(after_s=3600.0, fallback="alert"))
    await wait_for(context, spec("t!", schedule=BOTH, timing=timing))
    reads: list[Sequence[int]] = []
    next_due = clock._next_due

    async def read(db: Db, shards: Sequence[int]) -> tuple[dict[str, datetime], datetime]:
        reads.append(shards)
        return await next_due(db, shards)

    monkeypatch.setattr(clock, "_next_due", read)
    first = await clock.submit_due(context)
    early = len(reads)
    database.clock = Ahead(timedelta(seconds=first + 1))
    await clock.submit_due(context)

    assert (early, len(reads)) == (1, 3)


class AskedIntake(BusyIntake):
    """Says when the clock waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = anyio.Event()

    async def wait_for_gap(self, most_s: float) -> None:
        self.asked.set()
        await super().wait_for_gap(most_s)


@pytest.mark.parametrize("most", [clock.MAX_BATCH, 1], ids=["decided by rounds", "by full batches of a round"])
async def test_a_batch_of_intake_goes_before_a_decision_that_is_due_again_at_once(
    most: int, database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = AskedIntake()
    context = msgspec.structs.replace(await daemon(database, dsn), busy_intake=intake)
    monkeypatch.setattr(clock, "GAP_S", 60.0)
    monkeypatch.setattr(clock, "MAX_BATCH", most)
    database.run_events = 1
    await wait_for(context, spec("t!", schedule=DatasetRef("s://a")))
    await context.submit_messages([DatasetUpdated(uri="s://a")] * 4, [EventId("test", str(number)) for number in range(2, 6)])
    counts = [await _runs(database)]

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tg:
            with intake.batch():
                await tg.start(clock.clock, context)
                await intake.asked.wait()
                counts.append(await _runs(database))
            while await _runs(database) < 5:
                await anyio.sleep(0.01)
            tg.cancel_scope.cancel()

    assert counts == [2, 3]


async def _runs(database: Database) -> int:
    return int(await database.pool.fetchval("SELECT count(*) FROM dag_run"))


async def test_two_daemons_make_one_run_of_each_deadline(database: Database, other: Database, dsn: str) -> None:
    mine, theirs = await daemon(database, dsn), await daemon(other, dsn)
    timing = Timing(deadline=InputDeadlineSpec(after_s=0.3), min_interval_s=60.0)
    await wait_for(mine, *(spec("t!", dag_id=f"d{number}", schedule=BOTH, timing=timing) for number in range(40)))

    async with anyio.create_task_group() as tg:
        for context in (mine, theirs):
            tg.start_soon(_tick_until_all_ran, context, 40)
    for context in (mine, theirs):
        await clock.submit_due(context)

    runs = await database.pool.fetch("SELECT dag_id, count(*) FROM dag_run GROUP BY dag_id")
    assert sorted((row[0], row[1]) for row in runs) == sorted((f"d{number}", 1) for number in range(40))
    assert await database.pool.fetchval("SELECT count(*) FROM dagrun_dataset_event") == 40
    assert await database.pool.fetchval("SELECT count(*) FROM dataset_dag_run_queue") == 0


async def _tick_until_all_ran(context: Context, dags: int) -> None:
    """The shards change hands meanwhile."""
    while await _runs(context.database) < dags:
        await renew(context.database, context.held_leases)
        await anyio.sleep(min(max(await clock.submit_due(context), clock.MIN_SLEEP_S), 0.1))
