"""A row that another session holds, such as a console with an open transaction, stops nothing that can do without it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.integration.engine.contexts import context_of
from tests.integration.engine.world import World, utc
from tests.shapes import spec, task
from tests.tokens import token_of
from tidegate.daemon.context import Context
from tidegate.daemon.duties import clock
from tidegate.daemon.duties.admit import PoolRotation, admit_pools
from tidegate.daemon.duties.reconsider import reconsider_batch
from tidegate.daemon.leases import register, renew
from tidegate.daemon.postgres import locked_rows
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.postgres.session_settings import SERVER_SETTINGS
from tidegate.daemon.read_model.system import read_system
from tidegate.daemon.read_model.why_not import read_dag_why_not
from tidegate.daemon.settings import Settings
from tidegate.schemas.conditions.condition import DatasetRef
from tidegate.schemas.dag import ParsedFile
from tidegate.schemas.error import LockedError
from tidegate.schemas.message import AttemptSilent
from tidegate.schemas.queries import row_holders, submissions
from tidegate.schemas.queries.idle import outstanding_work
from tidegate.schemas.timetable.spec import Cron
from tidegate.schemas.wire.event import DatasetUpdated, EventId, TaskFinished

A = DatasetRef("s://a")
IDS = tuple(f"d{number}" for number in range(4))


@pytest.fixture
async def database(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """Its first wait for a row is short, and so are its next ones until the end of the test."""
    monkeypatch.setitem(SERVER_SETTINGS, "lock_timeout", "200ms")
    monkeypatch.setattr(locked_rows, "LASTS_S", 600.0)
    async with connect(dsn) as database:
        yield database


class Console:
    """A session that locks rows and does not end its transaction."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @asynccontextmanager
    async def holding(self, sql: str, *args: Any) -> AsyncIterator[int]:
        """Its pid."""
        connection = await asyncpg.connect(self._dsn, server_settings={"application_name": "a console"})
        try:
            async with connection.transaction():
                assert await connection.fetch(f"{sql} FOR UPDATE", *args)
                yield connection.get_server_pid()
        finally:
            await connection.close()


@pytest.fixture
def console(dsn: str) -> Console:
    return Console(dsn)


@pytest.fixture
async def context(database: Database, dsn: str, world: World) -> Context:
    """A daemon with all of the clock, at the time of the world."""
    context = context_of(database, Settings(postgres_dsn=dsn, kafka_servers="localhost:1", lease_ttl_s=3600.0))
    await register(database, clock.leases())
    await renew(database, context.held_leases)
    return context


LOCK_DAG = "SELECT FROM dag WHERE dag_id = 'd0'"


async def updated(context: Context, *names: str) -> None:
    """As many events of the dataset that all DAGs consume."""
    await context.submit_messages([DatasetUpdated(uri="s://a") for _ in names], [EventId("test", name) for name in names])


async def with_runs(world: World) -> list[str]:
    return [row[0] for row in await world.rows("SELECT DISTINCT dag_id FROM dag_run ORDER BY dag_id")]


async def test_events_are_recorded_and_only_the_decision_about_a_locked_dag_waits(
    world: World, context: Context, console: Console
) -> None:
    await world.file(*(spec("t", dag_id=id_, schedule=A) for id_ in IDS))

    async with console.holding(LOCK_DAG):
        with capture_logs() as logs:
            await updated(context, "1", "2")
            await updated(context, "3")
        early = await with_runs(world), await world.outcomes("d0"), len(await world.rows("SELECT FROM dataset_event"))
        again_s = await clock.submit_due(context)
        still = await with_runs(world)
        work = await world.database.run(outstanding_work)
    await clock.submit_due(context)

    assert early == ([*IDS[1:]], {"pending": 3}, 3)
    assert [line["event"] for line in logs] == ["rows_locked"]
    assert (0 < again_s <= clock.LOCKED_S, still, work.dags) == (True, [*IDS[1:]], 1)
    assert (await with_runs(world), await world.outcomes("d0")) == ([*IDS], {"consumed": 3})
    assert await world.rows("SELECT FROM deferred_dag") == []
    assert context.outages.away == {}


async def test_the_clock_makes_the_runs_of_other_dags_and_comes_back(world: World, context: Context, console: Console) -> None:
    timed = (spec("t", dag_id=id_, timetable=Cron(("0 * * * *",)), start_date=utc(2024, 5, 1)) for id_ in IDS)
    await world.file(*timed)
    world.clock.at = utc(2024, 5, 1, 13)

    async with console.holding(LOCK_DAG):
        again_s = await clock.submit_due(context)
        early = await with_runs(world)
    await clock.submit_due(context)

    assert (again_s, early) == (clock.LOCKED_S, [*IDS[1:]])
    assert await with_runs(world) == [*IDS]


@pytest.mark.parametrize("row", [LOCK_DAG, "SELECT FROM dag_run WHERE dag_id = 'd0'"])
async def test_the_end_of_an_attempt_of_a_locked_run_is_applied_later_and_once(
    world: World, context: Context, console: Console, row: str
) -> None:
    await world.file(*(spec("t*2", dag_id=id_, schedule=A) for id_ in IDS))
    await updated(context, "1")
    await world.admit()
    await world.submit()
    ends = [(TaskFinished(submission_id=id_, token=token_of(id_), outcome="succeeded"), id_) for id_ in await world.attempts()]
    stranger = TaskFinished(submission_id=ends[0][1], token=str(uuid4()), outcome="failed")
    ids = [EventId("runner", str(id_)) for _, id_ in ends]

    async with console.holding(row):
        await context.submit_messages([end for end, _ in ends], ids)
        await context.submit_messages([stranger, *(end for end, _ in ends)], [EventId("stranger", "1"), *ids])
        again_s = await clock.submit_due(context)
        early = await world.rows("SELECT dag_id FROM dag_run WHERE state = 'success' ORDER BY dag_id")
        kept = await world.rows("SELECT count(*) FROM deferred_end")
        await world.database.pool.execute("UPDATE submission SET heartbeat_at = now() - interval '1 day'")
        await context.submit_messages([AttemptSilent(submission_id=id_, silent_s=60.0) for _, id_ in ends])
        silent = await world.database.autocommit(submissions.silent, 60.0)
    await clock.submit_due(context)

    assert (again_s, [id_ for (id_,) in early], kept, silent) == (clock.LOCKED_S, [*IDS[1:]], [(1,)], [])
    assert await world.rows("SELECT DISTINCT state::text FROM dag_run") == [("success",)]
    assert await world.rows("SELECT (SELECT count(*) FROM deferred_end), (SELECT count(*) FROM ignored_finish)") == [(0, 0)]
    assert await world.rows("SELECT DISTINCT state::text FROM submission") == [("succeeded",)]


TIMED_OUT = "UPDATE dag_run SET times_out_at = '2024-01-01Z'"
RETRIES = "UPDATE task_instance SET state = 'up_for_retry', next_try_at = '2024-01-01Z'"
ASKED = "INSERT INTO run_to_reconsider (dag_run_id) SELECT id FROM dag_run"
OF_TASKS = "SELECT dag_id FROM dag_run JOIN task_instance AS task ON dag_run_id = dag_run.id WHERE task.state"
DONE = {
    "run": "SELECT DISTINCT dag_id FROM dag_run WHERE state = 'failed' ORDER BY dag_id",
    "retry": f"{OF_TASKS} = 'scheduled' ORDER BY dag_id",
    "reconsider": "SELECT dag_id FROM dag_run WHERE id NOT IN (SELECT dag_run_id FROM run_to_reconsider) ORDER BY dag_id",
    "admit": f"{OF_TASKS} = 'queued' ORDER BY dag_id",
}
LOCK_RUN = "SELECT FROM dag_run WHERE dag_id = 'd0'"
LOCK_TASK = "SELECT FROM task_instance WHERE dag_run_id = (SELECT id FROM dag_run WHERE dag_id = 'd0')"


@pytest.mark.parametrize(
    ("what", "prepared", "rows"),
    [
        ("run", TIMED_OUT, (LOCK_DAG, LOCK_RUN, LOCK_TASK)),
        ("retry", RETRIES, (LOCK_RUN, LOCK_TASK)),
        ("reconsider", ASKED, (LOCK_DAG, LOCK_RUN)),
        ("admit", "SELECT", (LOCK_RUN, LOCK_TASK)),
    ],
)
async def test_other_runs_go_on_while_one_is_locked(
    world: World, context: Context, console: Console, what: str, prepared: str, rows: tuple[str, ...]
) -> None:
    await world.file(*(spec("t*2", dag_id=id_, schedule=A) for id_ in IDS))
    for number, row in enumerate(rows):
        await world.database.pool.execute("UPDATE dag_run SET state = 'success' WHERE state = 'running'")
        await world.database.pool.execute("DELETE FROM task_instance")
        await world.database.pool.execute("DELETE FROM dag_run")
        await updated(context, f"{number}")
        await world.database.pool.execute(prepared)

        async with console.holding(row):
            with suppress(LockedError):
                await work(context, what)
            early = await world.rows(DONE[what])
        await work(context, what)

        assert ([id_ for (id_,) in early], [id_ for (id_,) in await world.rows(DONE[what])]) == ([*IDS[1:]], [*IDS]), row
    assert context.outages.away == {}


async def work(context: Context, what: str) -> None:
    match what:
        case "reconsider":
            await reconsider_batch(context, set())
        case "admit":
            await admit_pools(context, PoolRotation())
        case _:
            await clock.submit_due(context)


async def test_a_locked_pool_keeps_no_other_pool_from_admitting(world: World, context: Context, console: Console) -> None:
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('other', 5)")
    pools = ("default_pool", "other")
    await world.file(*(spec(task("t", pool=pool), dag_id=pool, schedule=A) for pool in pools))
    await updated(context, "1")

    async with console.holding("SELECT FROM pool WHERE name = 'default_pool'"):
        with pytest.raises(LockedError, match="tidegate doctor"):
            await admit_pools(context, PoolRotation())
        early = await world.rows(DONE["admit"])
    await admit_pools(context, PoolRotation())

    assert (early, await world.rows(DONE["admit"])) == ([("other",)], [("default_pool",), ("other",)])


async def test_a_locked_attempt_keeps_no_other_heartbeat_from_being_recorded(
    world: World, context: Context, console: Console
) -> None:
    await world.file(*(spec("t", dag_id=id_, schedule=A) for id_ in IDS))
    await updated(context, "1")
    await world.admit()
    await world.submit()
    first, *others = await world.attempts()
    await world.database.pool.execute("UPDATE submission SET heartbeat_at = now() - interval '1 day'")

    async with console.holding("SELECT FROM submission WHERE submission_id = $1", first):
        await context.database.autocommit(submissions.record_heartbeats, [(id_, 0.0) for id_ in (first, *others)])

    assert await context.database.autocommit(submissions.silent, 60.0) == [first]


async def test_the_session_that_holds_a_row_is_named(
    world: World, context: Context, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_holders, "LONG_S", 0.0)
    await world.file(*(spec("t", dag_id=id_, schedule=A) for id_ in IDS))
    await updated(context, "1")
    found = dict[str, Any]()

    for what, row in (("DAG d0", LOCK_DAG), ("run ", LOCK_RUN), ("", "SELECT FROM pool")):
        async with console.holding(row) as pid:
            system = await world.database.run(read_system)
            named = [line for line in system.problems if f"SELECT pg_terminate_backend({pid})" in line]
            why = {id_: (await world.database.run(read_dag_why_not, id_)).explanation for id_ in IDS}
            found[what] = pid, named, why

    for what, (pid, named, why) in found.items():
        (line,) = named
        shut = {id_: gate.reason for id_, page in why.items() for gate in page.gates if gate.name == "lock"}
        assert (f"pid {pid} (user " in line, "application a console" in line, "its last query began at" in line) == (True,) * 3
        assert (list(shut), [reason.what.startswith(what) for reason in shut.values()]) == (
            (["d0"], [True]) if what else ([], [])
        )
    assert "of DAG d0, and what needs them waits" in found["DAG d0"][1][0]
    assert not [line for line in (await world.database.run(read_system)).problems if "a console" in line]


async def test_a_changed_file_of_a_locked_dag_keeps_no_other_file_from_being_taken_up(
    world: World, context: Context, console: Console
) -> None:
    await world.file(*(spec("t", dag_id=id_, schedule=A) for id_ in IDS))
    changed, other = (spec("t", "u", dag_id=id_, schedule=A) for id_ in ("d0", "new"))
    files = [ParsedFile(path=path, digest="2", dags=(dag,)) for path, dag in (("dags.py", changed), ("other.py", other))]

    async with console.holding(LOCK_DAG):
        await updated(context, "1")
        with pytest.raises(LockedError):
            await context.submit_messages(files)
        early = await world.rows("SELECT dag_id FROM dag_version WHERE number = 2 OR dag_id = 'new'")
    await context.submit_messages(files)

    assert (early, context.outages.away) == ([("new",)], {})
    assert await world.rows("SELECT dag_id FROM dag_version WHERE number = 2 OR dag_id = 'new' ORDER BY dag_id") == [
        ("d0",),
        ("new",),
    ]
