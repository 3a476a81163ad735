"""The clock comes to deadlines, and sleeps until then."""

from datetime import timedelta

import anyio
import asyncpg

from tests.integration.engine.world import Ahead
from tests.integration.notify.missed_deadlines import AT_WORK, SOON, the_time_comes
from tests.integration.notify.notified_dag import NotifiedDag
from tests.integration.notify.post import Post
from tidegate.daemon.context import Context
from tidegate.daemon.duties import clock
from tidegate.daemon.leases import register, renew
from tidegate.daemon.postgres.database import Database


async def holding(post: Post) -> Context:
    """A daemon that has its share of the clock."""
    context = post.context()
    await register(context.database, clock.leases())
    await renew(context.database, context.held_leases)
    return context


async def test_the_clock_sleeps_until_the_deadline_and_tells_of_it(notified: NotifiedDag, post: Post) -> None:
    context = await holding(post)
    await notified.dag(SOON.replace("0.2", "3600"), task=AT_WORK)
    await notified.run()

    first = await clock.submit_due(context)
    before = await notified.deadlines()
    notified.database.clock = Ahead(timedelta(seconds=first + 1))
    await clock.submit_due(context)

    assert 0 < first <= 3600
    assert (before, await notified.deadlines()) == ([("soon", False, False)], [("soon", False, True)])


async def test_the_clock_does_not_spin_while_another_transaction_holds_the_run(
    notified: NotifiedDag, post: Post, dsn: str
) -> None:
    context = await holding(post)
    await notified.dag(SOON, task=AT_WORK)
    await notified.run()
    await the_time_comes()
    elsewhere = await asyncpg.connect(dsn)

    async with elsewhere.transaction():
        await elsewhere.execute("SELECT FROM dag_run FOR NO KEY UPDATE")
        pause = await clock.submit_due(context)
    await clock.submit_due(context)

    await elsewhere.close()
    assert pause >= clock.LOCKED_S * 0.9
    assert await notified.deadlines() == [("soon", False, True)]


async def test_r26_two_clocks_miss_many_deadlines_once(notified: NotifiedDag, post: Post, other: Database) -> None:
    """Each has its own shards, and both try those of the other while these change hands."""
    mine, theirs = await holding(post), await holding(Post(post.settings, other))
    await renew(mine.database, mine.held_leases)
    await notified.dag(f"{SOON}, max_active_runs=100, on_deadline=Webhook('http://127.0.0.1/')", task=AT_WORK)
    for number in range(40):
        await notified.run(f"r{number}")
    await the_time_comes()

    async with anyio.create_task_group() as tg:
        for context in (mine, theirs):
            tg.start_soon(clock.submit_due, context)
            tg.start_soon(notified.deadlines_pass, context.database)

    for context in (mine, theirs):
        await clock.submit_due(context)
    await notified.deadlines_pass()
    assert await notified.deadlines() == [("soon", False, True)] * 40
    assert [each.on for each in await notified.notifications()] == ["deadline"] * 40
    assert await notified.rows("SELECT DISTINCT state_seq FROM dag_run") == [(3,)]
