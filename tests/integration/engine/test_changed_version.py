"""A run changes to a newer version of its DAG while attempts of the earlier version have not ended."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID, uuid4

import pytest

from tests.integration.engine.chains import clear, command, started
from tests.integration.engine.world import World
from tests.tokens import token_of
from tidegate.handlers.task_finished import NOT_ON_RECORD
from tidegate.schemas.dag import DagSpec, TaskSpec
from tidegate.schemas.message import AttemptSilent, DagDeleteRequested, RunEndRequested, SubmissionAccepted
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.submissions import AttemptRef
from tidegate.schemas.state import RunState
from tidegate.schemas.wire.event import TaskFinished

CANCELLED = "cancelled by me"


async def submitting(world: World) -> list[UUID]:
    """The attempts that a daemon takes up."""
    await world.admit()
    claims = await world.database.run(submissions.claim_intents, uuid4(), "here", "command", 10)
    return [claim.submission_id for claim in claims]


async def cancel(world: World) -> None:
    await world.tell(RunEndRequested(dag_id="d", run_id="r1", state=RunState.FAILED, reason=CANCELLED, only_if_active=True))


async def change_to(world: World, *tasks: TaskSpec) -> None:
    """The run is cleared onto a version with these tasks."""
    await world.file(DagSpec(dag_id="d", tasks=tasks))
    await clear(world, newest_version=True)


async def accept(world: World, attempts: Sequence[UUID]) -> None:
    await world.tell(*(SubmissionAccepted(submission_id=id_, handle={}) for id_ in attempts))


@pytest.fixture
async def cancelled(world: World) -> list[UUID]:
    """The attempts of `a`, `b` and `c`, of which the new version has `c` only."""
    await started(world, command("a"), command("b"), command("c"))
    attempts = await submitting(world)
    await cancel(world)
    return attempts


@pytest.mark.parametrize("outcome", ["killed", "succeeded", "failed"])
@pytest.mark.parametrize("is_accepted", [True, False])
async def test_attempts_of_removed_tasks_end(world: World, cancelled: Sequence[UUID], outcome: str, is_accepted: bool) -> None:
    await change_to(world, command("c"))

    if is_accepted:
        await accept(world, cancelled)
    for attempt in cancelled:
        await world.finish(attempt, outcome)
    await world.work()

    assert await world.rows("SELECT task_index, state::text FROM submission ORDER BY 1 DESC, try_number") == [
        (0, outcome),
        (0, "succeeded"),
        (-1, outcome),
        (-2, outcome),
    ]
    assert await world.runs() == [("r1", "success")]
    assert await world.rows("SELECT active_tasks, unfinished FROM dag_run") == [(0, 0)]


async def test_a_silent_attempt_of_a_removed_task_ends(world: World, cancelled: Sequence[UUID]) -> None:
    await accept(world, cancelled)
    await change_to(world, command("c"))

    await world.tell(*(AttemptSilent(submission_id=id_, silent_s=0) for id_ in cancelled))

    assert await world.rows("SELECT DISTINCT state::text FROM submission") == [("lost",)]


async def test_a_removed_task_is_no_task_of_a_larger_version(world: World, cancelled: Sequence[UUID]) -> None:
    await change_to(world, *(command(name) for name in ("x", "y", "z", "c")))
    await world.admit()

    for attempt in cancelled:
        await world.finish(attempt, "killed")

    assert await world.tasks("r1") == {"x": "queued", "y": "queued", "z": "queued", "c": "scheduled"}


async def test_a_task_that_returns_begins_anew(world: World, cancelled: Sequence[UUID]) -> None:
    await change_to(world, command("c"))
    for attempt in cancelled:
        await world.finish(attempt, "killed")
    await cancel(world)
    await change_to(world, command("a"), command("b"), command("c"))

    await world.work()

    assert await world.runs() == [("r1", "success")]
    assert await world.rows("SELECT task_index, try_number, state::text FROM submission ORDER BY 1, 2") == [
        (-2, 1, "killed"),
        (-1, 1, "killed"),
        (0, 1, "succeeded"),
        (1, 1, "succeeded"),
        (2, 1, "killed"),
        (2, 2, "succeeded"),
    ]


async def test_tasks_are_removed_again(world: World) -> None:
    await started(world, command("a"), command("b"))
    await world.work()
    await change_to(world, command("b"))
    await world.work()
    await change_to(world, command("c"))
    await world.work()

    removed = "SELECT task_index, task_id FROM task_instance WHERE state = 'removed' ORDER BY 1 DESC"
    assert await world.rows(removed) == [(-1, "a"), (-2, "b")]
    assert await world.runs() == [("r1", "success")]


async def test_instances_of_a_task_that_is_mapped_no_more_are_removed(world: World) -> None:
    await started(world, command("list"), command("each", "list", over="list"))
    await world.work(result=[1, 2])
    attempts = await submitting(world)
    await accept(world, attempts)
    await cancel(world)

    await change_to(world, command("list"), command("each", "list"), command("after", "each"))
    for attempt in attempts:
        await world.finish(attempt, "killed")

    assert await world.tasks("r1") == {"list": "scheduled", "each": "none", "after": "none"}
    for _ in range(3):
        await world.work()
    assert await world.runs() == [("r1", "success")]


async def delete(world: World) -> None:
    await world.file()
    assert (await world.tell(DagDeleteRequested(dag_id="d"))).rejected == ()
    assert await world.rows("SELECT FROM submission") == []


async def ended(world: World, attempts: Sequence[UUID]) -> list[str]:
    """Why the ends of these attempts are ignored, in one batch. None is rejected, or kept for a run that is gone."""
    applied = await world.tell(*(TaskFinished(submission_id=id_, token=token_of(id_), outcome="killed") for id_ in attempts))
    assert (applied.rejected, await world.rows("SELECT FROM restored_end")) == ((), [])
    return [reason for (reason,) in await world.rows("SELECT reason FROM ignored_finish")]


async def test_attempts_of_a_deleted_dag_are_accepted_and_end(world: World, cancelled: Sequence[UUID]) -> None:
    await delete(world)

    await accept(world, cancelled)

    assert await ended(world, cancelled) == [NOT_ON_RECORD] * 3


async def test_a_dag_is_deleted_while_attempts_of_it_end(
    world: World, cancelled: Sequence[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = submissions.refs

    async def deleted_meanwhile(db: Db, ids: Collection[UUID]) -> Mapping[UUID, AttemptRef]:
        found = await refs(db, ids)
        if found:
            await delete(world)
        return found

    monkeypatch.setattr(submissions, "refs", deleted_meanwhile)

    assert await ended(world, cancelled) == [NOT_ON_RECORD] * 3
