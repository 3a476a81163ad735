"""Deadlines in Postgres: met by whatever ends in time, missed once, by whichever daemon."""

from collections.abc import AsyncIterator

import anyio
import asyncpg
import pytest

from tests.integration.notify.post import Post
from tests.integration.notify.scene import Scene
from tidegate.daemon import clock
from tidegate.daemon.context import Context
from tidegate.daemon.database import Database, connect
from tidegate.daemon.leases import offer, refresh
from tidegate.schemas.message import ClearRequested
from tidegate.schemas.state import RunState

SOON = "deadlines=[Deadline('soon', after=timedelta(seconds=0.2), since='queued_at')]"
LATER = "deadlines=[Deadline('later', after=timedelta(hours=1))]"
AT_WORK = "command('a', ['true'])"


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[Database]:
    """As another daemon has it."""
    async with connect(dsn) as database:
        yield database


async def the_time_comes() -> None:
    await anyio.sleep(0.25)


async def test_r26_two_daemons_miss_a_deadline_once(scene: Scene, other: Database) -> None:
    receivers = "on_deadline=[Email('ops@example.org'), Webhook('http://127.0.0.1/')]"
    await scene.dag(f"{SOON}, {receivers}", task=AT_WORK)
    await scene.run()
    await the_time_comes()

    async with anyio.create_task_group() as tg:
        for database in (scene.database, other) * 8:
            tg.start_soon(scene.deadlines_pass, database)

    assert await scene.deadlines() == [("soon", False, True)]
    assert [(event.seq, event.state) for event in await scene.published()] == [(1, "queued"), (2, "running"), (3, "running")]
    assert [(each.on, each.kind) for each in await scene.notifications()] == [("deadline", "email"), ("deadline", "webhook")]


async def test_r26_a_missed_deadline_is_in_the_journal_without_a_gap(scene: Scene) -> None:
    await scene.dag(SOON, task=AT_WORK)
    await scene.run()
    await the_time_comes()
    await scene.deadlines_pass()
    attempt = await scene.attempt()

    await scene.ends(attempt)

    assert [(seq, state) for seq, state, _ in await scene.journal()] == [
        (1, "queued"),
        (2, "running"),
        (3, "running"),
        (4, "success"),
    ]
    assert await scene.rows("SELECT missed_seq FROM deadline") == [(3,)]
    assert (await scene.journal())[2][2].startswith("missed the deadline 'soon' of ")


@pytest.mark.parametrize("row", ["dag_run", "deadline"])
async def test_r26_a_row_that_somebody_else_has_locked_is_passed_over(scene: Scene, dsn: str, row: str) -> None:
    await scene.dag(SOON, task=AT_WORK)
    await scene.run()
    await the_time_comes()
    elsewhere = await asyncpg.connect(dsn)

    async with elsewhere.transaction():
        await elsewhere.execute(f"SELECT FROM {row} FOR NO KEY UPDATE")
        with anyio.fail_after(2):
            passed_over = await scene.deadlines_pass()
    processed = await scene.deadlines_pass()

    await elsewhere.close()
    assert (passed_over.effects, processed.effects > 0) == (0, True)
    assert await scene.deadlines() == [("soon", False, True)]


async def test_r26_a_locked_run_holds_up_no_others(scene: Scene, dsn: str) -> None:
    await scene.dag(SOON, task=AT_WORK)
    await scene.run("r1")
    await scene.run("r2")
    await the_time_comes()
    elsewhere = await asyncpg.connect(dsn)

    async with elsewhere.transaction():
        await elsewhere.execute("SELECT FROM dag_run WHERE run_id = 'r1' FOR NO KEY UPDATE")
        await scene.deadlines_pass()

    await elsewhere.close()
    assert await scene.deadlines() == [("soon", False, False), ("soon", False, True)]


async def test_a_run_that_ends_in_time_has_met_its_deadlines(scene: Scene) -> None:
    await scene.dag(LATER, task=f"command('a', ['true'], {LATER})")
    await scene.run()
    attempt = await scene.attempt()

    await scene.ends(attempt, "failed")

    assert await scene.deadlines() == [("later", True, False), ("later", True, False)]
    assert (await scene.deadlines_pass()).effects == 0


async def test_a_task_that_ends_in_time_has_met_its_own_deadline_only(scene: Scene) -> None:
    await scene.dag(LATER, task=f"command('a', ['true'], {LATER}); dag.command('b', ['true'])")
    await scene.run()
    attempts = await scene.past.attempts_begin()

    await scene.ends(min(attempts, key=lambda each: each.task_index).submission_id)

    met = await scene.rows("SELECT task_id, met_at IS NOT NULL FROM deadline ORDER BY id")
    assert met == [(None, False), ("a", True)]


async def test_what_ends_too_late_has_missed_it_though_nobody_was_there_to_see(scene: Scene) -> None:
    await scene.dag(f"{SOON}, on_deadline=Webhook('http://127.0.0.1/')", task=AT_WORK)
    await scene.run()
    attempt = await scene.attempt()
    await the_time_comes()

    await scene.ends(attempt)
    await scene.deadlines_pass()

    assert await scene.deadlines() == [("soon", False, True)]
    told = (await scene.published())[-1]
    assert (told.seq, told.state) == (4, RunState.SUCCESS)
    assert [each.on for each in await scene.notifications()] == ["deadline"]


async def test_a_run_that_is_created_too_late_has_missed_it_at_once(scene: Scene) -> None:
    await scene.dag("deadlines=[Deadline('late', after=timedelta(minutes=1))]")
    await scene.run(logical_date=await scene.database.pool.fetchval("SELECT now() - interval '1 hour'"))

    await scene.deadlines_pass()

    assert await scene.deadlines() == [("late", False, True)]


async def test_a_run_may_miss_a_deadline_while_it_waits_and_run_all_the_same(scene: Scene) -> None:
    """The first run of a DAG at its limit keeps the second one waiting."""
    await scene.dag(f"max_active_runs=1, {SOON}", task=AT_WORK)
    await scene.run("r1")
    await scene.run("r2")
    await the_time_comes()
    await scene.deadlines_pass()

    for _ in range(2):
        await scene.ends(await scene.attempt())

    journal = await scene.rows(
        "SELECT seq, log.state::text FROM run_state_log AS log JOIN dag_run ON id = dag_run_id WHERE run_id = 'r2' ORDER BY seq"
    )
    assert journal == [(1, "queued"), (2, "queued"), (3, "running"), (4, "success")]


async def test_a_cleared_run_keeps_what_it_met_and_missed(scene: Scene) -> None:
    await scene.dag(LATER, task=AT_WORK)
    await scene.run()
    await scene.ends(await scene.attempt())

    await scene.apply(ClearRequested(dag_id="d", run_id="r1"))

    assert await scene.deadlines() == [("later", True, False)]


async def holding(post: Post) -> Context:
    """A daemon that has its share of the clock."""
    context = post.context()
    await offer(context.database, clock.duties())
    await refresh(context.database, context.holdings)
    return context


async def test_the_clock_sleeps_until_the_deadline_and_tells_of_it(scene: Scene, post: Post) -> None:
    context = await holding(post)
    await scene.dag(SOON, task=AT_WORK)
    await scene.run()

    first = await clock.tick(context)
    await anyio.sleep(first)
    await clock.tick(context)

    assert 0 < first <= 0.2
    assert await scene.deadlines() == [("soon", False, True)]


async def test_the_clock_does_not_spin_while_somebody_is_at_work_on_the_run(scene: Scene, post: Post, dsn: str) -> None:
    context = await holding(post)
    await scene.dag(SOON, task=AT_WORK)
    await scene.run()
    await the_time_comes()
    elsewhere = await asyncpg.connect(dsn)

    async with elsewhere.transaction():
        await elsewhere.execute("SELECT FROM dag_run FOR NO KEY UPDATE")
        pause = await clock.tick(context)
    await clock.tick(context)

    await elsewhere.close()
    assert pause >= clock.LOCKED_S * 0.9
    assert await scene.deadlines() == [("soon", False, True)]


async def test_r26_two_clocks_miss_many_deadlines_once(scene: Scene, post: Post, other: Database) -> None:
    """Each has its own shards, and both try those of the other while these change hands."""
    mine, theirs = await holding(post), await holding(Post(post.settings, other))
    await refresh(mine.database, mine.holdings)
    await scene.dag(f"{SOON}, max_active_runs=100, on_deadline=Webhook('http://127.0.0.1/')", task=AT_WORK)
    for number in range(40):
        await scene.run(f"r{number}")
    await the_time_comes()

    async with anyio.create_task_group() as tg:
        for context in (mine, theirs):
            tg.start_soon(clock.tick, context)
            tg.start_soon(scene.deadlines_pass, context.database)

    for context in (mine, theirs):
        await clock.tick(context)
    await scene.deadlines_pass()
    assert await scene.deadlines() == [("soon", False, True)] * 40
    assert [each.on for each in await scene.notifications()] == ["deadline"] * 40
    assert await scene.rows("SELECT DISTINCT state_seq FROM dag_run") == [(3,)]
