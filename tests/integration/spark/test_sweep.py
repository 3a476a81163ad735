"""Old spool directories are removed, except of attempts whose outcome is unknown; and the warnings of a sweep."""

import os
import threading
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import anyio
import asyncpg
import pytest
from msgspec import json, structs
from structlog.testing import capture_logs

from tests.integration.cli.history import HOST, History
from tests.integration.spark.dispatching import Far
from tests.integration.spark.submissions import Bench
from tests.servers import MakeSettings
from tests.tokens import token_of
from tidegate.daemon.backfills import create, get
from tidegate.daemon.context import Context
from tidegate.daemon.duties import expired_ids
from tidegate.daemon.duties import sweep as sweep_module
from tidegate.daemon.duties.expired_ids import ExpiredIds
from tidegate.daemon.duties.sweep import Pruner, Sweeper, Warnings, count_lagging_backfills, end_strays, maintain_months, sweep
from tidegate.daemon.leases import HeldLeases
from tidegate.daemon.outage import Outages
from tidegate.daemon.permissions import Caller, Role
from tidegate.daemon.postgres.commit_markers import check_ended_daemons
from tidegate.daemon.postgres.commit_receipts import FOLDER, Receipt, StoredReceipts
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.postgres.server_clock import ServerClock
from tidegate.daemon.spark import spool, spool_threads
from tidegate.daemon.spark.contract import Handle, Phase, Status
from tidegate.daemon.wake import Signals
from tidegate.events import topics
from tidegate.schemas.backfill import BackfillSpec
from tidegate.schemas.dag import CommandTask
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import inbox, ledger
from tidegate.schemas.queries.leases import Job

FILE = 'from tidegate import Dag, Dataset\nwith Dag("d", schedule=Dataset("s://a")) as dag: dag.command("c", ["true"])\n'
TIMED = """
from tidegate import Dag, cron
with Dag("timed", schedule=cron("0 0 * * *"), run_immediately=False) as dag: dag.command("c", ["true"])
"""


@pytest.fixture
async def daemon(settings: MakeSettings) -> AsyncIterator[Context]:
    mine = settings(host=HOST, spool_days=1, runner_heartbeat_s=0.1)
    async with connect(mine.postgres_dsn) as database:
        yield Context(
            settings=mine,
            database=database,
            held_leases=HeldLeases(Job(uuid4(), mine.host, os.getpid(), "test")),
            signals=Signals(),
            outages=Outages(),
            backends={},
        )


def left_behind(context: Context, submission_id: UUID) -> Path:
    """As old as a file can be."""
    folder = Path(context.settings.spool_dir) / str(submission_id)
    folder.mkdir(parents=True)
    (folder / "spec.json").touch()
    os.utime(folder / "spec.json", (0, 0))
    return folder


async def test_a_sweep_removes_what_is_old_and_keeps_what_is_under_way(daemon: Context) -> None:
    history = History(daemon.database)
    await history.file(FILE)
    await history.updated("s://a")
    (claimed,) = await history.attempts_begin()
    old, under_way = left_behind(daemon, uuid4()), left_behind(daemon, claimed.submission_id)

    async with anyio.create_task_group() as tg:
        await tg.start(sweep, daemon)
        with anyio.fail_after(60):
            while old.exists():
                await anyio.sleep(0.05)
        tg.cancel_scope.cancel()

    assert under_way.exists()


async def test_a_spool_that_cannot_be_read_is_said_and_no_end(daemon: Context) -> None:
    Path(daemon.settings.spool_dir).write_text("a file where a directory should be")

    with capture_logs() as logs:
        await Pruner(daemon).prune(daemon)

    assert [line["event"] for line in logs] == ["spool_not_pruned"]


async def test_a_spool_that_hangs_does_not_stop_the_sweep(daemon: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_threads, "LIMIT_S", 0.1)
    hangs = threading.Event()
    monkeypatch.setattr(spool, "prune", lambda *_: hangs.wait())

    with capture_logs() as logs, anyio.fail_after(60):
        await Pruner(daemon).prune(daemon)
    hangs.set()

    assert [line["event"] for line in logs] == ["spool_not_pruned"]


async def test_a_transaction_that_stays_open_is_told_once(daemon: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "LONG_TRANSACTION_S", 0.2)
    warnings = Warnings()
    other = await asyncpg.connect(daemon.settings.postgres_dsn, server_settings={"application_name": "report"})

    with capture_logs() as logs:
        async with other.transaction(isolation="repeatable_read"):
            await other.fetch("SELECT FROM dag")
            await anyio.sleep(0.3)
            for _ in range(2):
                await warnings.warn_of_open_transactions(daemon)
        await warnings.warn_of_open_transactions(daemon)
    await other.close()

    assert [(entry["event"], entry["application"]) for entry in logs] == [("transaction_open_for_long", "report")]


async def test_what_runs_for_no_open_attempt_is_killed(daemon: Context) -> None:
    await topics.create(daemon.settings.kafka_servers, daemon.settings.topic_prefix, 1, 1)
    history, bench = History(daemon.database), Bench(daemon.settings)
    await history.file(FILE)
    await history.updated("s://a")
    (claimed,) = await history.attempts_begin()
    Path(daemon.settings.dags_folder).mkdir(exist_ok=True)
    wait = CommandTask(task_id="wait", argv=("sleep", "600"))
    specs = [
        bench.spec(wait),
        structs.replace(bench.spec(wait), submission_id=claimed.submission_id),
        structs.replace(bench.spec(wait), token=token_of(uuid4())),
    ]
    bench.submitted.append(claimed.submission_id)
    stray, open_, of_another = [(spec, await bench.submit(spec)) for spec in specs]

    with capture_logs() as logs:
        await end_strays(structs.replace(daemon, backends=bench.backends))

    found = (await bench.until_ended(*stray)).phase, *[(await bench.status(*each)).phase for each in (open_, of_another)]
    for _, handle in (open_, of_another):
        await bench.backends["command"].kill(handle)
    assert found == (Phase.KILLED, Phase.RUNNING, Phase.RUNNING)
    assert [line["submission_id"] for line in logs if line["event"] == "stray_killed"] == [str(stray[0].submission_id)]


async def test_the_receipts_of_another_database_stay_for_its_daemons(daemon: Context, tmp_path: Path) -> None:
    now = await daemon.database.pool.fetchval("SELECT now()")
    month = timedelta(days=30)
    contents = {
        "fresh": StoredReceipts("another", (Receipt(1, 1, 1, now),)),
        "old": StoredReceipts("another", (Receipt(1, 1, 1, now - month),)),
        "empty": StoredReceipts("another", ()),
    }
    paths = {name: tmp_path / FOLDER / str(uuid4()) for name in contents}
    (tmp_path / FOLDER).mkdir()
    for name, path in paths.items():
        path.write_bytes(json.encode(contents[name]))

    await check_ended_daemons(daemon.database, tmp_path, "here")

    assert [name for name, path in paths.items() if path.exists()] == ["fresh"]


class Strays(Far):
    """Two attempts that have ended run here. The kill of each begins before the other has ended, and fails."""

    def __init__(self) -> None:
        super().__init__()
        self.handles: dict[UUID, Handle] = {uuid4(): {"number": number} for number in range(2)}
        self.begun = anyio.Semaphore(0)
        self.looked_at = set[UUID]()

    async def running(self) -> Mapping[UUID, Handle]:
        return self.handles

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        self.looked_at.update(handles)
        return {}

    async def kill(self, handle: Handle) -> None:
        self.begun.release()
        with anyio.fail_after(60):
            while self.begun.value < len(self.handles):
                await anyio.sleep(0.01)
        raise KeyError(handle["number"])


async def test_a_stray_whose_kill_fails_delays_no_other_and_is_reaped(daemon: Context) -> None:
    """Its cluster may not have confirmed the kill: the reaper, which the look at it starts, tries on."""
    strays = Strays()

    with capture_logs() as logs, pytest.raises(KeyError):
        await end_strays(structs.replace(daemon, backends={"command": strays}))

    assert len([line for line in logs if line["event"] == "stray_killed"]) == 2
    assert strays.looked_at == set(strays.handles)


async def test_nothing_is_killed_once_lost_commits_are_known_during_the_look(daemon: Context) -> None:
    """Postgres may not know an attempt any more whose commit was lost."""
    held_leases = daemon.held_leases

    class FailedOver(Strays):
        async def running(self) -> Mapping[UUID, Handle]:
            held_leases.has_open_loss = True
            return self.handles

    with capture_logs() as logs:
        await end_strays(structs.replace(daemon, backends={"command": FailedOver()}))

    assert [line["event"] for line in logs] == []


async def test_a_run_that_a_daemon_of_a_former_version_ended_is_counted(daemon: Context) -> None:
    history = History(daemon.database)
    await history.file(TIMED)
    at = datetime(2013, 1, 1, tzinfo=UTC)
    spec = BackfillSpec(dag_id="timed", start_date=at, end_date=at)
    await create(daemon.database, daemon.settings, Caller("ann", Role.EDITOR), spec)
    await history.backfilled()
    await daemon.database.pool.execute("UPDATE dag_run SET state = 'success'")

    with capture_logs() as logs:
        await count_lagging_backfills(daemon)
        await history.backfilled()
        await count_lagging_backfills(daemon)

    assert [line["backfills"] for line in logs if line["event"] == "backfills_lagging"] == [[1]]
    assert (await get(daemon.database, 1)).state == "success"


async def test_a_step_that_fails_each_round_delays_no_other(daemon: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    old, error = left_behind(daemon, uuid4()), UnavailableError("a statement takes too long", server="Postgres")

    async def broken(_: Context) -> None:
        raise KeyError("ours")

    async def slow(_: Context) -> None:
        raise error

    monkeypatch.setattr(sweep_module, "requeue_stuck_attempts", broken)
    monkeypatch.setattr(sweep_module, "delete_dead_daemons", slow)
    sweeper = Sweeper(daemon)
    with capture_logs() as logs:
        for _ in range(2):
            with pytest.raises(UnavailableError, match="too long"):
                await sweeper.round()

    assert not old.exists()
    assert [line["step"] for line in logs if line["event"] == "sweep_failed"] == ["broken"]
    assert set(daemon.outages.away) == {"duty sweep broken"}


IDS = """
INSERT INTO event_dedupe (source, event_id, scope, received_at)
SELECT 'test', n::text, repeat('x', 100), now() - make_interval(days => CASE WHEN n % 7 = 0 THEN 15 ELSE 13 END)
FROM generate_series(1, 700) AS n
"""


async def test_old_ids_are_deleted_a_part_of_the_table_at_a_time(daemon: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie between newer ones, as where ids were deleted before."""
    monkeypatch.setattr(expired_ids, "PAGES_AT_ONCE", 2)
    monkeypatch.setattr(expired_ids, "LEAST_PAGES", 5)
    await daemon.database.pool.execute(IDS)
    pages = await daemon.database.autocommit(inbox.pages)
    ids, counts = ExpiredIds(), []
    for _ in range(-(-pages // 5)):
        await ids.delete(daemon)
        counts.append(await daemon.database.pool.fetchval("SELECT count(*) FROM event_dedupe"))

    assert pages > 5
    assert (counts == sorted(set(counts), reverse=True), counts[-1]) == (True, 600)
    await daemon.database.pool.execute(IDS.replace("'test'", "'again'"))
    for _ in range(100):
        await ids.delete(daemon)
    assert await daemon.database.pool.fetchval("SELECT count(*) FROM event_dedupe") == 1200


@pytest.mark.parametrize("days", [1100, -1100])
async def test_while_a_clock_is_wrong_nothing_of_the_history_is_deleted(
    daemon: Context, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    await daemon.database.pool.execute(IDS)
    months, sweeper = await daemon.database.autocommit(ledger.months), Sweeper(daemon)
    with monkeypatch.context() as wrong, capture_logs() as logs:
        wrong.setattr(ServerClock, "extrapolated", lambda _: datetime.now(UTC) + timedelta(days=days))
        await maintain_months(daemon)
        await sweeper._delete_expired_ids(daemon)
    kept = await daemon.database.pool.fetchval("SELECT count(*) FROM event_dedupe")

    await sweeper._delete_expired_ids(daemon)

    assert [line["event"] for line in logs] == ["clocks_differ"]
    assert (await daemon.database.autocommit(ledger.months), kept) == (months, 700)
    assert await daemon.database.pool.fetchval("SELECT count(*) FROM event_dedupe") == 600


async def test_a_step_that_works_again_is_no_outage_any_more(daemon: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [KeyError("ours")]

    async def step(_: Context) -> None:
        if errors:
            raise errors.pop()

    monkeypatch.setattr(sweep_module, "delete_dead_daemons", step)
    sweeper = Sweeper(daemon)

    await sweeper.round()
    away = set(daemon.outages.away)
    await sweeper.round()

    assert (away, set(daemon.outages.away)) == ({"duty sweep step"}, set())
