"""Deadlines in Postgres: met by whatever ends in time, missed once, by whichever daemon."""

import anyio
import asyncpg
import pytest

from tests.integration.notify.late import AT_WORK, LATE_INPUTS, SOON, the_time_comes
from tests.integration.notify.scene import Scene
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.message import ClearRequested, DagDeleteRequested
from tidegate.schemas.state import RunState

LATER = "deadlines=[Deadline('later', after=timedelta(hours=1))]"


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


async def test_two_daemons_tell_of_late_inputs_once(scene: Scene, other: Database) -> None:
    await scene.dag(f"{LATE_INPUTS}, on_deadline=[Email('ops@example.org'), Webhook('http://127.0.0.1/')]")

    await scene.inputs_are_late(*(scene.database, other) * 8)

    assert [(each.on, each.kind) for each in await scene.notifications()] == [("deadline", "email"), ("deadline", "webhook")]


async def test_of_a_dag_that_is_deleted_nobody_is_told(scene: Scene) -> None:
    await scene.dag(f"{LATE_INPUTS}, on_deadline=Webhook('http://127.0.0.1/')")
    await scene.inputs_are_late()
    await scene.past.file("", "d.py")

    await scene.apply(DagDeleteRequested(dag_id="d"))

    assert await scene.notifications() == []


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


async def test_a_run_whose_end_is_written_after_its_deadline_has_not_ended_before_it(scene: Scene, dsn: str) -> None:
    """The end waits for its locks while the time passes."""
    await scene.dag(SOON, task=AT_WORK)
    await scene.run()
    attempt = await scene.attempt()
    elsewhere = await asyncpg.connect(dsn)

    async with anyio.create_task_group() as tg, elsewhere.transaction():
        await elsewhere.execute("SELECT FROM dag_run FOR NO KEY UPDATE")
        tg.start_soon(scene.ends, attempt)
        await the_time_comes()
    await scene.deadlines_pass()

    await elsewhere.close()
    assert await scene.deadlines() == [("soon", False, True)]
    assert await scene.rows("SELECT end_date >= due_at FROM deadline JOIN dag_run AS run ON run.id = dag_run_id") == [(True,)]


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
