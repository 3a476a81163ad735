"""A backend accepted an attempt: its task is running, unless it has ended before."""

from uuid import UUID, uuid4

import msgspec

from tests.shapes import NOW, graph, message
from tests.unit.handlers.simulated_run import SimulatedRun
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers.load import LockedAttempts
from tidegate.handlers.submission_accepted import decide
from tidegate.schemas.effect.run import UpdateRun
from tidegate.schemas.effect.submission import AcceptSubmission
from tidegate.schemas.effect.task import MoveTask, TaskMoved
from tidegate.schemas.message import Message, SubmissionAccepted
from tidegate.schemas.state import SubmissionState, TaskState
from tidegate.schemas.view import Instance


def accepted(id_: UUID) -> Message[SubmissionAccepted]:
    return message(SubmissionAccepted(submission_id=id_, handle={"pid": 7}))


def submitting(*task_ids: str) -> tuple[SimulatedRun, list[UUID]]:
    """A run with attempts that are being submitted."""
    world = SimulatedRun(graph(*task_ids))
    world.admit(*task_ids)
    attempts = [world.attempt(task_id) for task_id in task_ids]
    for id_ in attempts:
        world.submissions[id_] = msgspec.structs.replace(world.submissions[id_], state=SubmissionState.SUBMITTING)
    return world, attempts


def found(world: SimulatedRun) -> LockedAttempts:
    state = world.found(world.tasks)
    return LockedAttempts(state.now, state.runs, state.graphs, state.submissions, state.tasks)


def test_the_handle_is_stored_and_the_task_is_running() -> None:
    world, (attempt,) = submitting("a")

    effects = well_formed(decide([accepted(attempt)], found(world)))

    assert [e for e in effects if isinstance(e, AcceptSubmission)] == [AcceptSubmission(attempt, {"pid": 7}, NOW, None)]
    assert [(e.state, e.start_date) for e in effects if isinstance(e, MoveTask)] == [(TaskState.RUNNING, NOW)]


def test_the_moves_of_a_run_get_the_next_numbers() -> None:
    world, attempts = submitting("a", "b")
    before = world.run.task_seq

    effects = well_formed(decide([accepted(id_) for id_ in attempts], found(world)))

    assert [(e.event.seq, e.event.state) for e in effects if isinstance(e, TaskMoved)] == [
        (before + 1, "running"),
        (before + 2, "running"),
    ]
    assert [effect.task_seq for effect in effects if isinstance(effect, UpdateRun)] == [before + 2]


def test_an_attempt_that_ended_before_it_was_accepted_stays_ended() -> None:
    world, (attempt, _) = submitting("a", "b")
    world.finish(a=True)

    effects = well_formed(decide([accepted(attempt)], found(world)))

    assert effects == []


def test_the_other_attempts_of_its_batch_start() -> None:
    world, (ended, other) = submitting("a", "b")
    world.finish(a=True)

    effects = well_formed(decide([accepted(ended), accepted(other)], found(world)))

    assert [effect.task_index for effect in effects if isinstance(effect, MoveTask)] == [1]


def test_an_attempt_accepted_after_its_run_ended_is_accepted_to_be_killed() -> None:
    world, (attempt,) = submitting("a")
    world.reconsider(stop="enough")

    effects = well_formed(decide([accepted(attempt)], found(world)))

    assert effects == [AcceptSubmission(attempt, {"pid": 7}, NOW, None)]


def test_an_attempt_in_two_messages_starts_once() -> None:
    world, (attempt,) = submitting("a")

    effects = well_formed(decide([accepted(attempt), accepted(attempt)], found(world)))

    assert [effect.event.state for effect in effects if isinstance(effect, TaskMoved)] == ["running"]


def test_an_attempt_of_a_removed_task_is_accepted_to_be_killed() -> None:
    world, (attempt,) = submitting("a")
    removed = Instance(-1, TaskState.REMOVED, try_number=1)
    world.submissions[attempt] = msgspec.structs.replace(world.submissions[attempt], task_index=-1)
    state = msgspec.structs.replace(found(world), tasks={(world.run.id, -1): removed})

    effects = well_formed(decide([accepted(attempt)], state))

    assert effects == [AcceptSubmission(attempt, {"pid": 7}, NOW, None)]


def test_an_attempt_of_a_run_that_was_deleted_is_ignored() -> None:
    assert well_formed(decide([accepted(uuid4())], LockedAttempts(NOW, {}, {}, {}, {}))) == []
