"""Which waiting tasks get a slot."""

from uuid import RFC_4122

import msgspec
import pytest

from tests.shapes import graph, run_update
from tests.shapes import task as task_of
from tests.unit.handlers.admission_states import READY, found
from tests.unit.handlers.simulated_run import SimulatedRun
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers.admission.select import submission_id
from tidegate.handlers.tasks_ready import decide
from tidegate.schemas.dag import CommandTask, FunctionTask, SqlTask, SubmitTask, TaskSpec
from tidegate.schemas.effect.run import UpdateRun
from tidegate.schemas.effect.submission import InsertSubmission
from tidegate.schemas.effect.task import MoveTask, TaskMoved
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import WaitingTask


def test_a_scheduled_task_is_queued_with_the_intent_to_submit_it() -> None:
    world = SimulatedRun(graph("a"))

    effects = well_formed(decide(READY, found(world)))

    stamp = submission_id("", world.run, "a", 1)
    assert [e for e in effects if isinstance(e, InsertSubmission)] == [InsertSubmission(stamp, 1, 0, 1, "command")]
    assert [(e.state, e.try_number) for e in effects if isinstance(e, MoveTask)] == [(TaskState.QUEUED, 1)]


def test_a_task_that_is_tried_again_gets_the_next_number() -> None:
    world = SimulatedRun(graph("a*1"))
    world.admit("a")
    world.finish(a=False)
    world.retry("a")

    effects = well_formed(decide(READY, found(world)))

    assert [e.try_number for e in effects if isinstance(e, InsertSubmission)] == [2]
    assert [e.event.try_number for e in effects if isinstance(e, TaskMoved)] == [2]


def test_a_task_whose_time_for_another_try_is_to_come_gets_no_slot() -> None:
    world = SimulatedRun(graph("a*1"))
    world.admit("a")
    world.finish(a=False)

    effects = well_formed(decide(READY, found(world)))

    assert effects == []


def test_a_task_that_another_daemon_admitted_is_left_alone() -> None:
    world = SimulatedRun(graph("a", "b"))
    world.admit("a")

    effects = well_formed(decide(READY, found(world)))

    assert [effect.task_index for effect in effects if isinstance(effect, InsertSubmission)] == [1]


@pytest.mark.parametrize(
    ("state", "admitted"),
    [
        pytest.param(RunState.QUEUED, 0, id="P02 queued"),
        pytest.param(RunState.RUNNING, 2, id="P02 running"),
        pytest.param(RunState.SUCCESS, 0, id="P02 success"),
        pytest.param(RunState.FAILED, 0, id="P02 P20 failed meanwhile"),
    ],
)
def test_only_a_run_at_work_gets_slots(state: RunState, admitted: int) -> None:
    world = SimulatedRun(graph("a", "b"))
    world.run = msgspec.structs.replace(world.run, state=state)

    effects = well_formed(decide(READY, found(world)))

    assert sum(isinstance(effect, InsertSubmission) for effect in effects) == admitted
    assert bool(effects) == bool(admitted)


def test_admission_leaves_the_run_as_it_is_but_for_its_numbers() -> None:
    world = SimulatedRun(graph("a", "b"))

    effects = well_formed(decide(READY, found(world)))

    assert [e for e in effects if isinstance(e, UpdateRun)] == [run_update(world.run, task_seq=4, active_tasks=2)]


@pytest.mark.parametrize(
    ("task", "backend", "cluster"),
    [
        (CommandTask(task_id="t", argv=("true",)), "command", None),
        (FunctionTask(task_id="t"), "spark-connect", None),
        (FunctionTask(task_id="t", cluster="nightly"), "spark-connect", "nightly"),
        (SqlTask(task_id="t", sql="SELECT 1"), "spark-connect", None),
        (SubmitTask(task_id="t", application="a.py", cluster="nightly"), "spark-submit", "nightly"),
    ],
)
def test_each_kind_of_task_has_its_backend_and_the_cluster_that_it_names(
    task: TaskSpec, backend: str, cluster: str | None
) -> None:
    effects = decide(READY, found(SimulatedRun(graph(task))))

    assert [(effect.backend, effect.cluster) for effect in effects if isinstance(effect, InsertSubmission)] == [
        (backend, cluster)
    ]


def test_no_two_attempts_have_one_stamp() -> None:
    run = SimulatedRun(graph("a")).run
    other = msgspec.structs.replace(run, id=2)

    stamps = {
        submission_id("", run, "a", 1),
        submission_id("", run, "a", 2),
        submission_id("", run, "b", 1),
        submission_id("", other, "a", 1),
    }

    assert len(stamps) == 4


def test_stamps_of_later_runs_come_later_whatever_they_are_of() -> None:
    run = SimulatedRun(graph("a")).run
    runs = [msgspec.structs.replace(run, id=number) for number in (1, 255, 256, 65_536, 3_000_000_000)]

    stamps = [submission_id("", run, task_id, number) for run in runs for task_id, number in (("a", 1), ("b", 7))]

    assert all(max(stamps[at : at + 2]) < min(stamps[at + 2 : at + 4]) for at in range(0, len(stamps) - 2, 2))
    assert {(stamp.version, stamp.variant) for stamp in stamps} == {(8, RFC_4122)}


def test_a_row_that_was_inserted_says_what_the_admission_needs() -> None:
    world = SimulatedRun(graph(task_of("a", pool_slots=3, max_active_per_dag=4, max_active_per_run=2)))

    assert world.waiting("a") == (WaitingTask(1, 0, "d", "a", TaskState.SCHEDULED, 0, 3, 4, 2),)


def test_a_task_that_a_later_version_adds_again_has_another_stamp() -> None:
    run = SimulatedRun(graph("a")).run
    later = msgspec.structs.replace(run, version_id=3)

    assert submission_id("", run, "a", 1) != submission_id("", later, "a", 1)


def test_two_installations_have_different_stamps() -> None:
    run = SimulatedRun(graph("a")).run

    assert submission_id("here/1", run, "a", 1) != submission_id("here/2", run, "a", 1)
