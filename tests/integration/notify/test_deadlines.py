"""Deadlines in Postgres: met by whatever ends in time, missed once, by whichever daemon."""

from collections.abc import Mapping

import anyio
import asyncpg
import pytest

from tests.integration.notify.missed_deadlines import AT_WORK, LATE_INPUTS, SOON, the_time_comes
from tests.integration.notify.notified_dag import NotifiedDag
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.message import ClearRequested, DagDeleteRequested, RunEndRequested
from tidegate.schemas.queries import dags, facts, now, run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunState
from tidegate.schemas.view import QueuedRun

LATER = "deadlines=[Deadline('later', after=timedelta(hours=1))]"


async def test_r26_two_daemons_miss_a_deadline_once(notified: NotifiedDag, other: Database) -> None:
    receivers = "on_deadline=[Email('ops@example.org'), Webhook('http://127.0.0.1/')]"
    await notified.dag(f"{SOON}, {receivers}", task=AT_WORK)
    await notified.run()
    await the_time_comes()

    async with anyio.create_task_group() as tg:
        for database in (notified.database, other) * 8:
            tg.start_soon(notified.deadlines_pass, database)
    await notified.deadlines_pass()

    assert await notified.deadlines() == [("soon", False, True)]
    assert [(event.seq, event.state) for event in await notified.published()] == [(1, "queued"), (2, "running"), (3, "running")]
    assert [(each.on, each.kind) for each in await notified.notifications()] == [("deadline", "email"), ("deadline", "webhook")]


async def test_two_daemons_tell_of_late_inputs_once(notified: NotifiedDag, other: Database) -> None:
    await notified.dag(f"{LATE_INPUTS}, on_deadline=[Email('ops@example.org'), Webhook('http://127.0.0.1/')]")

    await notified.inputs_are_late(*(notified.database, other) * 8)

    assert [(each.on, each.kind) for each in await notified.notifications()] == [("deadline", "email"), ("deadline", "webhook")]


async def test_a_deleted_dag_sends_no_notification(notified: NotifiedDag) -> None:
    await notified.dag(f"{LATE_INPUTS}, on_deadline=Webhook('http://127.0.0.1/')")
    await notified.inputs_are_late()
    await notified.history.file("", "d.py")

    await notified.apply(DagDeleteRequested(dag_id="d"))

    assert await notified.notifications() == []


async def test_r26_a_missed_deadline_is_in_the_journal_without_a_gap(notified: NotifiedDag) -> None:
    await notified.dag(SOON, task=AT_WORK)
    await notified.run()
    await the_time_comes()
    await notified.deadlines_pass()
    attempt = await notified.attempt()

    await notified.ends(attempt)

    assert [(seq, state) for seq, state, _ in await notified.journal()] == [
        (1, "queued"),
        (2, "running"),
        (3, "running"),
        (4, "success"),
    ]
    assert await notified.rows("SELECT missed_seq FROM deadline") == [(3,)]
    assert (await notified.journal())[2][2].startswith("missed the deadline 'soon' of ")


async def test_a_run_whose_end_is_written_after_its_deadline_has_not_ended_before_it(notified: NotifiedDag, dsn: str) -> None:
    """The end waits for its locks while the time passes."""
    await notified.dag(SOON, task=AT_WORK)
    await notified.run()
    attempt = await notified.attempt()
    elsewhere = await asyncpg.connect(dsn)

    async with anyio.create_task_group() as tg, elsewhere.transaction():
        await elsewhere.execute("SELECT FROM dag_run FOR NO KEY UPDATE")
        tg.start_soon(notified.ends, attempt)
        await the_time_comes()
    await notified.deadlines_pass()

    await elsewhere.close()
    assert await notified.deadlines() == [("soon", False, True)]
    assert await notified.rows("SELECT end_date >= due_at FROM deadline JOIN dag_run AS run ON run.id = dag_run_id") == [(True,)]


@pytest.mark.parametrize("row", ["dag_run", "deadline"])
async def test_r26_a_row_that_another_transaction_has_locked_is_passed_over(notified: NotifiedDag, dsn: str, row: str) -> None:
    await notified.dag(SOON, task=AT_WORK)
    await notified.run()
    await the_time_comes()
    elsewhere = await asyncpg.connect(dsn)

    async with elsewhere.transaction():
        await elsewhere.execute(f"SELECT FROM {row} FOR NO KEY UPDATE")
        with anyio.fail_after(30):
            passed_over = await notified.deadlines_pass()
    processed = await notified.deadlines_pass()

    await elsewhere.close()
    assert (passed_over.effects, processed.effects > 0) == (0, True)
    assert await notified.deadlines() == [("soon", False, True)]


async def test_r26_a_locked_run_holds_up_no_others(notified: NotifiedDag, dsn: str) -> None:
    await notified.dag(SOON, task=AT_WORK)
    await notified.run("r1")
    await notified.run("r2")
    await the_time_comes()
    elsewhere = await asyncpg.connect(dsn)

    async with elsewhere.transaction():
        await elsewhere.execute("SELECT FROM dag_run WHERE run_id = 'r1' FOR NO KEY UPDATE")
        await notified.deadlines_pass()

    await elsewhere.close()
    assert await notified.deadlines() == [("soon", False, False), ("soon", False, True)]


async def test_a_run_that_starts_while_its_deadline_passes_counts_both(
    notified: NotifiedDag, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the first run has read the queue of its DAG; the clock of another daemon comes before it writes."""
    await notified.dag(f"max_active_runs=1, {SOON}", task=AT_WORK)
    await notified.run("r1")
    await notified.run("r2")
    await the_time_comes()
    attempt, first_queued = await notified.attempt(), dags.first_queued

    async def then_deadlines_pass(db: Db, slots: Mapping[str, int]) -> Mapping[str, tuple[QueuedRun, ...]]:
        found = await first_queued(db, slots)
        await notified.deadlines_pass(other)
        return found

    monkeypatch.setattr(dags, "first_queued", then_deadlines_pass)
    await notified.ends(attempt)
    monkeypatch.undo()
    await notified.deadlines_pass()

    assert await notified.states_of("r2") == [(1, "queued"), (2, "running"), (3, "running")]


async def test_a_run_that_ends_in_time_has_met_its_deadlines(notified: NotifiedDag) -> None:
    await notified.dag(LATER, task=f"command('a', ['true'], {LATER})")
    await notified.run()
    attempt = await notified.attempt()

    await notified.ends(attempt, "failed")

    assert await notified.deadlines() == [("later", True, False), ("later", True, False)]
    assert (await notified.deadlines_pass()).effects == 0


async def test_a_task_that_ends_in_time_has_met_its_own_deadline_only(notified: NotifiedDag) -> None:
    await notified.dag(LATER, task=f"command('a', ['true'], {LATER}); dag.command('b', ['true'])")
    await notified.run()
    attempts = await notified.history.attempts_begin()

    await notified.ends(min(attempts, key=lambda each: each.task_index).submission_id)

    met = await notified.rows("SELECT task_id, met_at IS NOT NULL FROM deadline ORDER BY id")
    assert met == [(None, False), ("a", True)]


async def test_what_ends_too_late_has_missed_it_although_no_daemon_was_up(notified: NotifiedDag) -> None:
    await notified.dag(f"{SOON}, on_deadline=Webhook('http://127.0.0.1/')", task=AT_WORK)
    await notified.run()
    attempt = await notified.attempt()
    await the_time_comes()

    await notified.ends(attempt)
    await notified.deadlines_pass()

    assert await notified.deadlines() == [("soon", False, True)]
    told = (await notified.published())[-1]
    assert (told.seq, told.state) == (4, RunState.SUCCESS)
    assert [each.on for each in await notified.notifications()] == ["deadline"]


async def test_a_run_that_is_created_after_the_time_of_a_deadline_has_not_missed_it(notified: NotifiedDag) -> None:
    await notified.dag("deadlines=[Deadline('late', after=timedelta(minutes=1))], on_deadline=Webhook('http://127.0.0.1/')")
    await notified.run(logical_date=await notified.database.pool.fetchval("SELECT now() - interval '1 hour'"))

    await notified.deadlines_pass()

    assert (await notified.deadlines(), await notified.notifications()) == ([], [])


async def test_a_run_may_miss_a_deadline_while_it_waits_and_run_all_the_same(notified: NotifiedDag) -> None:
    """The first run of a DAG at its limit keeps the second one waiting."""
    await notified.dag(f"max_active_runs=1, {SOON}", task=AT_WORK)
    await notified.run("r1")
    await notified.run("r2")
    await the_time_comes()
    await notified.deadlines_pass()

    for _ in range(2):
        await notified.ends(await notified.attempt())

    assert await notified.states_of("r2") == [(1, "queued"), (2, "queued"), (3, "running"), (4, "success")]


async def test_a_deadline_that_is_missed_after_the_run_has_failed_is_not_why_it_failed(notified: NotifiedDag) -> None:
    await notified.dag(SOON, task=AT_WORK)
    await notified.run()
    await the_time_comes()
    await notified.apply(RunEndRequested(dag_id="d", run_id="r1", state=RunState.FAILED, reason="anna failed it"))

    await notified.deadlines_pass()

    read, of_run = notified.database.run, ("d", "r1")
    (failed,) = await read(now.failed, 3600.0, 10)
    said = (failed.reason, (await read(facts.run_facts, *of_run)).reason, await read(run_pages.state_reason, *of_run))
    assert said == ("anna failed it",) * 3
    assert (await notified.journal())[-1][2].startswith("missed the deadline 'soon' of ")


async def test_a_cleared_run_keeps_what_it_met_and_missed(notified: NotifiedDag) -> None:
    await notified.dag(LATER, task=AT_WORK)
    await notified.run()
    await notified.ends(await notified.attempt())

    await notified.apply(ClearRequested(dag_id="d", run_id="r1"))

    assert await notified.deadlines() == [("later", True, False)]
