"""A DAG whose stored version cannot be read, or whose decision fails, is held; all others go on."""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.integration.engine.world import World, utc
from tests.tokens import token_of
from tidegate.daemon.containment import apply_without_owner
from tidegate.handlers.scheduling import next_runs
from tidegate.schemas.conditions.condition import DatasetRef
from tidegate.schemas.dag import CommandTask, DagSpec, DeadlineSpec, ParsedFile
from tidegate.schemas.effect import Effect
from tidegate.schemas.message import (
    AttemptStuck,
    AttemptTimedOut,
    ClearRequested,
    DagDeleteRequested,
    HistoryPart,
    ReleaseRequested,
    RetryDue,
    RunEndRequested,
    RunReconsidered,
    RunTimedOut,
    SubmissionAccepted,
)
from tidegate.schemas.queries import holds, runs, submissions, tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunState
from tidegate.schemas.timetable.spec import Cron
from tidegate.schemas.view import DagView, RunView
from tidegate.schemas.wire.event import TaskFinished

WORK = CommandTask(task_id="work", argv=("true",))
HELD = "SELECT dag_id, hold_reason FROM dag WHERE held_since IS NOT NULL"
DAMAGES = {
    "an unknown field": """UPDATE dag_version SET spec = spec || '{"surprise": 1}'""",
    "nothing": "UPDATE dag_version SET spec = '{}'",
    "no object": "UPDATE dag_version SET spec = '[]'",
    "an unknown zone": """UPDATE dag_version SET spec = jsonb_set(spec, '{timetable,timezone}', '"Mars/Base"')""",
    "a refused cron": """UPDATE dag_version SET spec = jsonb_set(spec, '{timetable,expressions}', '["99 99"]')""",
    "no row": "DELETE FROM dag_version",
}


def consumer(dag_id: str, **facts: Any) -> DagSpec:
    given = {"schedule": DatasetRef("s://a"), "timetable": Cron(("0 * * * *",)), "start_date": utc(2024, 5, 1, 13), **facts}
    return DagSpec(dag_id=dag_id, tasks=(WORK,), **given)


async def damage(world: World, how: str) -> None:
    """Damage the row of the version as another program would, and forget what this process has read."""
    await world.file(consumer("good"), path="good.py")
    await world.file(consumer("bad"), path="bad.py")
    await world.database.pool.execute("CREATE TABLE good AS SELECT id, spec FROM dag_version")
    await world.database.pool.execute(f"{DAMAGES[how]} WHERE dag_id = 'bad'")
    world.database.clear_memory()


async def run_ids(world: World, dag_id: str) -> list[str]:
    return [row[0] for row in await world.rows("SELECT run_type::text FROM dag_run WHERE dag_id = $1 ORDER BY id", dag_id)]


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_dag_with_an_unreadable_version_is_held_and_others_go_on(world: World, how: str) -> None:
    await damage(world, how)

    await world.updated("s://a")
    await world.wait(hours=1)
    await world.work()

    assert await run_ids(world, "good") == ["dataset", "scheduled"]
    ((dag_id, reason),) = await world.rows(HELD)
    assert dag_id == "bad"
    assert "cannot be read" in reason or "is missing" in reason or "a decision failed" in reason
    assert await world.outcomes("bad") == {"pending": 1}


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_good_file_releases_the_dag_and_nothing_was_lost(world: World, how: str) -> None:
    await damage(world, how)
    await world.updated("s://a")

    await world.file(consumer("bad"), path="bad.py")
    await world.tick()

    assert await world.rows(HELD) == []
    assert await run_ids(world, "bad") == ["dataset"]
    assert await world.outcomes("bad") == {"consumed": 1}


@pytest.mark.parametrize("how", [how for how in DAMAGES if how != "no row"])
async def test_a_version_that_was_mended_is_read_again_before_its_dag_is_held(world: World, how: str) -> None:
    await damage(world, how)
    await world.updated("s://a")
    await world.database.pool.execute("UPDATE dag_version SET spec = good.spec FROM good WHERE good.id = dag_version.id")
    await world.tell(ReleaseRequested(dag_id="bad"))
    await world.tick()

    assert await world.rows(HELD) == []
    assert await run_ids(world, "bad") == ["dataset"]


async def test_a_dag_that_gets_a_good_version_while_its_decision_fails_is_not_held(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file waits for the lock that the decision has, and has it before the hold."""
    await damage(world, "nothing")
    hold = holds.hold

    async def hold_after_a_file(db: Db, *args: Any) -> list[str]:
        monkeypatch.setattr(holds, "hold", hold)
        await world.file(consumer("bad", max_active_runs=3), path="bad.py")
        return await hold(db, *args)

    monkeypatch.setattr(holds, "hold", hold_after_a_file)
    await world.updated("s://a")
    await world.wait(hours=1)
    await world.work()

    assert await world.rows(HELD) == []
    assert await run_ids(world, "bad") == ["dataset", "scheduled"]


@pytest.mark.parametrize("gets_another", [False, True])
async def test_a_message_that_fails_twice_holds_its_dag_unless_that_got_another_version(world: World, gets_another: bool) -> None:
    await world.file(consumer("bad"), path="bad.py")
    await world.updated("s://a")
    ((run,),) = await world.rows("SELECT id FROM dag_run")
    message, tries, surprise = RunReconsidered(dag_run_id=run), count(), KeyError("surprise")

    async def act() -> str:
        if next(tries) == 0:
            if gets_another:
                await world.file(consumer("bad", max_active_runs=3), path="bad.py")
            raise surprise
        return "applied"

    assert await apply_without_owner(world.database, message, surprise, act) == "applied"

    assert await world.rows(HELD) == ([] if gets_another else [("bad", "RunReconsidered failed: KeyError: 'surprise'")])
    assert next(tries) == 2


async def test_runs_of_a_held_dag_wait_and_go_on_after_its_release(world: World) -> None:
    await world.file(consumer("bad"), path="bad.py")
    await world.updated("s://a")
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()
    spec = (await world.rows("SELECT spec FROM dag_version"))[0][0]
    await world.database.pool.execute(DAMAGES["nothing"])
    world.database.clear_memory()
    await world.updated("s://a")

    applied = await world.tell(TaskFinished(submission_id=attempt, token=token_of(attempt), outcome="succeeded"))
    assert [rejected.reason for rejected in applied.rejected] == ["dag_held"]
    await world.database.pool.execute("UPDATE dag_version SET spec = $1", spec)
    await world.tell(ReleaseRequested(dag_id="bad"))
    await world.finish(attempt)
    await world.tick()

    states = await world.rows("SELECT state::text FROM dag_run ORDER BY id")
    assert states[0] == ("success",)


async def test_attempts_under_way_are_left_alone_while_their_dag_is_held(world: World) -> None:
    await world.file(consumer("bad"), path="bad.py")
    await world.updated("s://a")
    await world.admit()
    ((attempt,),) = await world.rows("SELECT submission_id FROM submission")
    accepted = SubmissionAccepted(submission_id=attempt, handle={})
    await world.database.pool.execute("UPDATE submission SET state = 'submitting'")
    await world.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'another daemon says so'")

    for message in (accepted, AttemptTimedOut(submission_id=attempt), AttemptStuck(submission_id=attempt, queued_s=0)):
        await world.tell(message)
    held = await world.rows("SELECT state::text FROM submission")
    await world.tell(ReleaseRequested(dag_id="bad"))
    await world.tell(accepted)

    assert held == [("submitting",)]
    assert await world.rows("SELECT state::text FROM submission") == [("accepted",)]


async def test_a_retry_that_is_due_waits_while_its_dag_is_held(world: World) -> None:
    task = CommandTask(task_id="work", argv=("true",), retries=1, retry_delay_s=60.0)
    await world.file(DagSpec(dag_id="bad", tasks=(task,), schedule=DatasetRef("s://a")), path="bad.py")
    await world.updated("s://a")
    await world.admit()
    await world.submit()
    await world.finish((await world.attempts())[0], "failed")
    ((run, index),) = await world.rows("SELECT dag_run_id, task_index FROM task_instance")
    await world.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'another daemon says so'")
    world.clock.at += timedelta(minutes=2)

    await world.tell(RetryDue(dag_run_id=run, task_index=index))
    held = await world.rows("SELECT state::text FROM task_instance")
    await world.tell(ReleaseRequested(dag_id="bad"))
    await world.tell(RetryDue(dag_run_id=run, task_index=index))

    assert held == [("up_for_retry",)]
    assert await world.rows("SELECT state::text FROM task_instance") == [("scheduled",)]


async def test_a_request_to_reconsider_a_run_waits_for_the_release_of_its_dag(world: World) -> None:
    last = CommandTask(task_id="last", argv=("true",), upstream=("work",))
    await world.file(DagSpec(dag_id="bad", tasks=(WORK, last), schedule=DatasetRef("s://a")), path="bad.py")
    await world.updated("s://a")
    await world.work()
    ((spec,),) = await world.rows("SELECT spec FROM dag_version")
    await world.tell(ClearRequested(dag_id="bad", start=utc(2024, 1, 1), end=utc(2025, 1, 1)))
    await world.database.pool.execute(DAMAGES["nothing"])
    world.database.clear_memory()

    (run,) = await world.database.run(runs.to_reconsider, 1)
    await world.tell(RunReconsidered(dag_run_id=run))
    held = await world.rows(f"SELECT state::text FROM task_instance WHERE task_id = 'work' AND EXISTS ({HELD})")
    await world.database.pool.execute("UPDATE dag_version SET spec = $1", spec)
    await world.tell(ReleaseRequested(dag_id="bad"))
    await world.reconsider()

    assert held == [("none",)]
    assert await world.rows("SELECT state::text FROM task_instance WHERE task_id = 'work'") == [("scheduled",)]


async def test_a_dag_that_is_held_meanwhile_is_not_released_while_its_limits_are_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = CommandTask(task_id="work", argv=("true",), max_active_per_dag=1)
    await world.file(DagSpec(dag_id="bad", tasks=(limited,), schedule=DatasetRef("s://a")))
    await world.updated("s://a")
    ready, lock = tasks.ready, runs.lock

    async def held(*args: Any) -> Any:
        found = await ready(*args)
        await world.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'a test'")
        return found

    async def released(db: Db, ids: Collection[int], **how: bool) -> Mapping[int, RunView]:
        async with world.database.pool.acquire() as another, another.transaction():
            await another.execute("SET LOCAL lock_timeout = '20ms'")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await another.execute("UPDATE dag SET held_since = NULL, hold_reason = NULL")
        return await lock(db, ids, **how)

    monkeypatch.setattr(tasks, "ready", held)
    monkeypatch.setattr(runs, "lock", released)
    await world.admit()

    assert await world.rows("SELECT state::text FROM task_instance") == [("scheduled",)]


async def test_all_faulty_consumers_of_an_event_are_held_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[str] = []

    def fails(dag: DagView, _: Any) -> Iterator[Effect]:
        decided.append(dag.graph.dag_id)
        raise KeyError("surprise")

    await world.file(*(consumer(f"bad{number}") for number in range(4)))
    monkeypatch.setattr(next_runs, "_schedule", fails)

    await world.updated("s://a")

    assert [row[0] for row in await world.rows(f"{HELD} ORDER BY dag_id")] == [f"bad{number}" for number in range(4)]
    assert len(decided) == 2 * 4


@pytest.mark.parametrize(("is_right", "found"), [(True, "bad"), (False, None)])
async def test_only_an_end_with_the_token_of_its_attempt_may_hold_the_dag(
    world: World, is_right: bool, found: str | None
) -> None:
    await world.file(consumer("bad"), path="bad.py")
    await world.updated("s://a")
    await world.admit()
    ((attempt,),) = await world.rows("SELECT submission_id FROM submission")
    token = token_of(attempt) if is_right else "another"

    end = TaskFinished(submission_id=attempt, token=token, outcome="failed")

    assert await world.database.run(holds.dag_of, end) == found
    assert await world.database.run(holds.dag_of, AttemptStuck(submission_id=attempt, queued_s=0)) == "bad"


async def test_an_end_that_comes_while_its_dag_is_released_has_the_right_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.file(consumer("bad"), path="bad.py")
    await world.updated("s://a")
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()
    await hold_until_runs_are_locked(world, monkeypatch)

    applied = await world.tell(TaskFinished(submission_id=attempt, token=token_of(attempt), outcome="succeeded"))

    assert [rejected.reason for rejected in applied.rejected] == ["dag_held"]


@pytest.mark.parametrize("message", [RunReconsidered, RunTimedOut])
async def test_a_run_whose_dag_is_released_meanwhile_waits_for_the_next_decision(
    world: World, monkeypatch: pytest.MonkeyPatch, message: type[RunReconsidered | RunTimedOut]
) -> None:
    await world.file(consumer("bad"), path="bad.py")
    await world.updated("s://a")
    ((run,),) = await world.rows("UPDATE dag_run SET times_out_at = $1 RETURNING id", world.at)
    await world.rows("INSERT INTO run_to_reconsider (dag_run_id, stop_reason) VALUES ($1, 'a test')", run)
    with monkeypatch.context() as patch:
        await hold_until_runs_are_locked(world, patch)
        await world.tell(message(dag_run_id=run))

    early = await world.rows("SELECT state::text FROM dag_run")
    await world.tick()

    assert (early, await world.rows("SELECT state::text FROM dag_run WHERE id = $1", run)) == ([("running",)], [("failed",)])


async def hold_until_runs_are_locked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """All DAGs are held while a message locks them, and released before it locks their runs."""
    await world.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'a test'")
    lock = runs.lock

    async def released(db: Db, ids: Collection[int], **how: bool) -> Mapping[int, RunView]:
        await world.database.pool.execute("UPDATE dag SET held_since = NULL, hold_reason = NULL")
        return await lock(db, ids, **how)

    monkeypatch.setattr(runs, "lock", released)


async def test_a_failing_decision_about_one_consumer_of_an_event_holds_that_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = next_runs._schedule

    def fails_for_bad(dag: DagView, now: Any) -> Iterator[Effect]:
        if dag.graph.dag_id == "bad":
            raise KeyError("surprise")
        return decide(dag, now)

    await world.file(consumer("good"), consumer("bad"))
    monkeypatch.setattr(next_runs, "_schedule", fails_for_bad)

    await world.updated("s://a")

    assert await run_ids(world, "good") == ["dataset"]
    assert await world.rows(HELD) == [("bad", "a decision failed: KeyError: 'surprise'")]
    monkeypatch.undo()
    await world.tell(ReleaseRequested(dag_id="bad"))
    await world.tick()
    assert await run_ids(world, "bad") == ["dataset"]


@pytest.mark.parametrize("due_at", ["-infinity", "infinity", "294276-12-31Z"])
async def test_a_due_time_out_of_the_calendar_delays_no_other_dag(world: World, due_at: str) -> None:
    await world.file(consumer("good"), path="good.py")
    await world.file(consumer("bad"), path="bad.py")
    await world.database.pool.execute(f"UPDATE dag SET due_at = '{due_at}' WHERE dag_id = 'bad'")

    await world.wait(hours=1)

    assert await run_ids(world, "good") == ["scheduled"]


async def test_only_a_held_dag_can_be_released(world: World) -> None:
    await world.file(consumer("good"))

    applied = await world.tell(ReleaseRequested(dag_id="good"))

    assert "no DAG 'good' is held" in applied.rejected[0].message


async def with_unreadable_run(world: World) -> UUID:
    """A run at work of the first version, which cannot be read any more; the second version is good. Returns its attempt."""
    deadlines = (DeadlineSpec(name="soon", after_s=60, since="queued_at"),)
    await world.file(consumer("bad", deadlines=deadlines), path="bad.py")
    await world.updated("s://a")
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()
    await world.file(consumer("bad", description="second", deadlines=deadlines), path="bad.py")
    await world.database.pool.execute("UPDATE dag_version SET spec = '{}' WHERE number = 1")
    world.database.clear_memory()
    return attempt


async def cancelled(world: World) -> None:
    ((run_id,),) = await world.rows("SELECT run_id FROM dag_run")
    await world.tell(RunEndRequested(dag_id="bad", run_id=run_id, state=RunState.FAILED, reason="no way out"))


@pytest.mark.parametrize("is_held", [False, True])
async def test_a_run_of_an_unreadable_version_can_be_cancelled_and_the_dag_goes_on(world: World, is_held: bool) -> None:
    attempt = await with_unreadable_run(world)
    if is_held:
        await world.wait(minutes=5)  # its deadline passes
        await world.finish(attempt)
        assert [row[0] for row in await world.rows(HELD)] == ["bad"]

    await cancelled(world)
    ((wanted, why),) = await world.rows("SELECT desired_state, kill_reason FROM submission")
    await world.finish(attempt, "killed")
    if is_held:
        await world.tell(ReleaseRequested(dag_id="bad"))
    await world.wait(minutes=10)
    await world.updated("s://a")
    await world.work()

    assert (wanted, why) == ("kill", "no way out")
    assert await world.rows(HELD) == []
    assert await world.rows("SELECT state::text FROM dag_run ORDER BY id") == [("failed",), ("success",)]
    assert await world.rows("SELECT state::text FROM submission ORDER BY created_at") == [("killed",), ("succeeded",)]
    assert await world.rows("SELECT task_id, state::text FROM task_instance ORDER BY dag_run_id") == [
        ("work", "failed"),
        ("work", "success"),
    ]


async def test_the_attempts_of_a_cancelled_run_are_killed_while_the_dag_is_held(world: World) -> None:
    attempt = await with_unreadable_run(world)
    await world.finish(attempt)
    await cancelled(world)

    await world.finish(attempt, "killed")

    assert [row[0] for row in await world.rows(HELD)] == ["bad"]
    assert await world.rows("SELECT state::text FROM submission") == [("killed",)]


@pytest.mark.parametrize(("dag_id", "reason"), [("bad", "no_such_run"), ("unknown", "no_such_dag")])
async def test_a_run_that_a_held_dag_lacks_cannot_be_cancelled(world: World, dag_id: str, reason: str) -> None:
    await world.finish(await with_unreadable_run(world))

    applied = await world.tell(RunEndRequested(dag_id=dag_id, run_id="unknown", state=RunState.FAILED, reason="no way out"))

    assert [rejected.reason for rejected in applied.rejected] == [reason]


async def test_a_held_dag_in_no_file_can_be_deleted(world: World) -> None:
    attempt = await with_unreadable_run(world)
    await world.finish(attempt)
    for _ in range(2):
        await world.tell(ParsedFile(path="bad.py", digest=None))

    oldest = DagDeleteRequested(dag_id="bad", portion=(HistoryPart.RUNS, 1))
    refused = [(await world.tell(request)).rejected[0].reason for request in (DagDeleteRequested(dag_id="bad"), oldest)]
    await cancelled(world)
    await world.tell(oldest)
    left = [(await world.rows(f"SELECT count(*) FROM {table}"))[0][0] for table in ("dag", "dag_run", "submission")]
    await world.tell(DagDeleteRequested(dag_id="bad"))

    assert (refused, left) == (["has_runs", "has_runs"], [1, 0, 0])
    for table in ("dag", "dag_version", "dag_run", "submission"):
        assert await world.rows(f"SELECT count(*) FROM {table}") == [(0,)]


LATER = "UPDATE dag SET released_at = released_at - interval '20 minutes'"


@pytest.mark.parametrize("by_file", [False, True])
@pytest.mark.parametrize("state", ["intent", "submitting", "accepted"])
async def test_attempts_that_waited_for_a_release_are_neither_silent_nor_stuck_at_once(
    world: World, state: str, by_file: bool
) -> None:
    await world.file(consumer("bad"), path="bad.py")
    await world.updated("s://a")
    await world.admit()
    long_ago = "created_at = now() - interval '1 hour', submitted_at = now() - interval '1 hour'"
    await world.database.pool.execute(f"UPDATE submission SET state = '{state}', {long_ago}")
    await world.database.pool.execute("UPDATE dag SET held_since = now() - interval '1 hour', hold_reason = 'a test'")

    if by_file:
        await world.file(consumer("bad", description="mended"), path="bad.py")
    else:
        await world.tell(ReleaseRequested(dag_id="bad"))
    at_once = await overdue(world)
    await world.database.pool.execute(LATER)
    later = await overdue(world)

    assert (at_once, len(later)) == ([], 1 if state != "submitting" else 2)


async def overdue(world: World) -> list[UUID]:
    """The attempts that are silent or stuck, as the sweep counts."""
    found = [await world.database.run(submissions.silent, 600), await world.database.run(submissions.stuck, 600)]
    return [each for of in found for each in of]


async def test_heartbeats_of_held_dags_are_recorded(world: World) -> None:
    await world.file(consumer("bad"), path="bad.py")
    await world.updated("s://a")
    await world.admit()
    await world.submit()
    await world.database.pool.execute("UPDATE submission SET host = 'here'")
    await world.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'a test'")

    held = await world.database.run(submissions.running, ["command"], "here", [])
    await world.tell(ReleaseRequested(dag_id="bad"))
    released = await world.database.run(submissions.running, ["command"], "here", [])

    assert [[each.is_held for each in found] for found in (held, released)] == [[True], [False]]
