"""Users fail runs, and mark runs and tasks."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from tests.shapes import NOW, dag_view, graph, message, queued, task
from tests.unit.handlers.simulated_run import SimulatedRun
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers import run_end_requested, task_marked
from tidegate.handlers.load import WholeRun
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.dag import CountFailures, UpdateSchedule, WakeDag
from tidegate.schemas.effect.run import Reconsider, ReconsiderAfter, UpdateRun
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.effect.task import OutletUpdated
from tidegate.schemas.message import RunEndRequested, TaskMarked
from tidegate.schemas.state import RunState, TaskState

NONE, SCHEDULED = TaskState.NONE, TaskState.SCHEDULED
S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED
NO_DAG = RejectMessage("no_such_dag", "there is no DAG 'd'; `tidegate dags list` shows all")
NO_RUN = RejectMessage("no_such_run", "DAG 'd' has no run 'r1'; `tidegate runs list d` shows all")


def found(world: SimulatedRun) -> WholeRun:
    """The run with its DAG, which is at its limit of one run; another run is queued."""
    dag = graph("t", limit=1)
    running = int(world.run.state is RunState.RUNNING)
    view = dag_view(dag, running=running, queued=1, queued_runs=queued(dag, 8))
    return WholeRun(NOW, view, world.run, world.graph, tuple(msgspec.structs.replace(task) for task in world.tasks.values()))


def end_wanted(state: RunState, world: SimulatedRun) -> list[Effect]:
    wish = RunEndRequested(dag_id="d", run_id="r1", state=state, reason="by hand")
    return well_formed(run_end_requested.decide([message(wish)], found(world)))


def marked(task_id: str, state: TaskState, world: SimulatedRun) -> list[Effect]:
    wish = TaskMarked(dag_id="d", run_id="r1", task_id=task_id, state=state)
    return well_formed(task_marked.decide([message(wish)], found(world)))


def half_done() -> SimulatedRun:
    """A run with a task in each state."""
    world = SimulatedRun(graph("done", "failed", "works", "waits", "tried*1", "later < works", "after < failed"))
    world.admit("done", "failed", "works", "tried")
    world.finish(done=True, failed=False, tried=False)
    return world


def others(effects: Sequence[Effect]) -> list[int]:
    """The ids of other runs that are started."""
    return [effect.id for effect in effects if isinstance(effect, UpdateRun) and effect.id != 1]


def test_a_failed_run_skips_waiting_tasks_and_kills_active_ones() -> None:
    world = half_done()

    effects = end_wanted(RunState.FAILED, world)
    world.apply(effects)

    assert world.states() == {"done": S, "failed": F, "works": F, "waits": K, "tried": K, "later": K, "after": UF}
    assert [(e.task_index, e.reason) for e in effects if isinstance(e, KillSubmissions)] == [(None, "by hand")]
    assert others(effects) == [8]


def test_marking_a_run_as_success_marks_all_its_tasks() -> None:
    world = half_done()

    effects = end_wanted(RunState.SUCCESS, world)
    world.apply(effects)

    assert set(world.states().values()) == {S}
    assert (world.run.state, world.run.unfinished, world.run.failed_leaves) == (RunState.SUCCESS, 0, 0)
    assert [(e.task_index, e.reason) for e in effects if isinstance(e, KillSubmissions)] == [(None, "by hand")]
    assert others(effects) == [8]


@pytest.mark.parametrize("state", [RunState.SUCCESS, RunState.FAILED])
def test_without_active_tasks_nothing_is_killed(state: RunState) -> None:
    assert not any(isinstance(effect, KillSubmissions) for effect in end_wanted(state, SimulatedRun(graph("a"))))


def test_a_task_marked_as_success_updates_no_outlet() -> None:
    world = SimulatedRun(graph(task("a", outlets=("s://x",))))

    effects = [*end_wanted(RunState.SUCCESS, world), *marked("a", S, world)]

    assert not any(isinstance(effect, OutletUpdated) for effect in effects)


def test_a_removed_task_is_not_marked_with_its_run() -> None:
    world = SimulatedRun(graph("a", task("b", end_date=NOW.replace(year=2020))), logical_date=NOW)

    world.apply(end_wanted(RunState.SUCCESS, world))

    assert world.states() == {"a": S, "b": TaskState.REMOVED}


@pytest.mark.parametrize(("state", "after"), [(RunState.SUCCESS, RunState.FAILED), (RunState.FAILED, RunState.SUCCESS)])
def test_marking_an_ended_run_frees_no_slot(state: RunState, after: RunState) -> None:
    world = SimulatedRun(graph("a"))
    world.admit("a")
    world.finish(a=state is RunState.SUCCESS)

    effects = end_wanted(after, world)
    world.apply(effects)

    assert [event.state for event in world.journal] == ["queued", "running", state, after]
    assert others(effects) == []


def test_a_run_is_not_set_to_the_state_that_it_has() -> None:
    world = SimulatedRun(graph("a!"))

    effects = end_wanted(RunState.SUCCESS, world)

    assert effects == [RejectMessage("already_ended", "run 'r1' has already ended as success")]


@pytest.mark.parametrize(
    ("ended", "wanted", "accepted"),
    [(True, RunState.FAILED, False), (False, RunState.FAILED, True), (True, RunState.SUCCESS, False)],
    ids=["it has ended", "it is running", "it has that state"],
)
def test_only_an_active_run_is_cancelled(*, ended: bool, wanted: RunState, accepted: bool) -> None:
    world = SimulatedRun(graph("a!" if ended else "a"))
    wish = RunEndRequested(dag_id="d", run_id="r1", state=wanted, reason="by hand", only_if_active=True)

    effects = well_formed(run_end_requested.decide([message(wish)], found(world)))

    rejected = RejectMessage("already_ended", "run 'r1' has already ended as success")
    assert (effects == [rejected]) is not accepted


@pytest.mark.parametrize(
    ("before", "wanted", "backfill_id", "counted"),
    [
        pytest.param(RunState.RUNNING, RunState.FAILED, None, [2], id="a running run fails"),
        pytest.param(RunState.RUNNING, RunState.SUCCESS, None, [0], id="a running run succeeds"),
        pytest.param(RunState.RUNNING, RunState.FAILED, 7, [], id="a running run of a backfill fails"),
        pytest.param(RunState.FAILED, RunState.SUCCESS, None, [0], id="a failure is corrected"),
        pytest.param(RunState.FAILED, RunState.SUCCESS, 7, [], id="a failure of a backfill is corrected"),
        pytest.param(RunState.SUCCESS, RunState.FAILED, None, [], id="a success is called a failure"),
        pytest.param(RunState.QUEUED, RunState.FAILED, None, [], id="a queued run fails"),
    ],
)
def test_a_marked_run_counts_for_the_consecutive_failures_of_its_dag(
    before: RunState, wanted: RunState, backfill_id: int | None, counted: list[int]
) -> None:
    """One run of the DAG failed before."""
    world = SimulatedRun(graph("a"))
    world.run = msgspec.structs.replace(world.run, state=before, backfill_id=backfill_id)
    whole = msgspec.structs.replace(found(world), dag=dag_view(graph("t", max_failed_runs=9), running=1, failed_runs=1))
    wish = RunEndRequested(dag_id="d", run_id="r1", state=wanted, reason="by hand")

    effects = well_formed(run_end_requested.decide([message(wish)], whole))

    assert [effect.failed_runs for effect in effects if isinstance(effect, CountFailures)] == counted


@pytest.mark.parametrize(
    ("state", "rejected"),
    [(WholeRun(NOW, dag_exists=False), NO_DAG), (WholeRun(NOW, dag_view(graph("t"))), NO_RUN)],
    ids=["no such DAG", "no such run"],
)
def test_unknown_dags_and_runs_are_rejected(state: WholeRun, rejected: RejectMessage) -> None:
    end = RunEndRequested(dag_id="d", run_id="r1", state=RunState.FAILED, reason="by hand")
    mark = TaskMarked(dag_id="d", run_id="r1", task_id="t", state=S)

    effects = [*run_end_requested.decide([message(end)], state), *task_marked.decide([message(mark)], state)]

    assert effects == [rejected, rejected]


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.SUCCESS])
def test_a_run_ends_without_its_dag_and_the_clock_decides_about_the_next(state: RunState) -> None:
    whole = msgspec.structs.replace(found(half_done()), dag=None)
    end = RunEndRequested(dag_id="d", run_id="r1", state=state, reason="by hand")

    effects = well_formed(run_end_requested.decide([message(end)], whole))

    assert WakeDag("d", NOW) in effects
    assert any(isinstance(effect, UpdateRun) and effect.state is state for effect in effects)
    assert others(effects) == []


def test_an_unknown_task_is_rejected() -> None:
    effects = marked("unknown", S, SimulatedRun(graph("a")))

    assert effects == [RejectMessage("no_such_task", "run 'r1' has no task 'unknown', or has not started")]


def test_a_task_is_not_marked_with_the_state_that_it_has() -> None:
    effects = marked("a", F, failed())

    assert effects == [RejectMessage("already_ended", "task 'a' of run 'r1' is already failed")]


def test_unfinished_instances_of_a_marked_task_are_removed_and_active_ones_killed() -> None:
    world = SimulatedRun(graph("a", task("m < a", over="a")))
    world.returns["a"] = [0, 1, 2]
    world.admit("a")
    world.finish(a=True)
    world.admit("m[0]", "m[1]")
    world.finish(**{"m[0]": True})

    effects = marked("m", S, world)
    world.apply(effects)

    assert [world.states()[f"m[{element}]"] for element in range(3)] == [S, TaskState.REMOVED, TaskState.REMOVED]
    assert [effect.task_index for effect in effects if isinstance(effect, KillSubmissions)] == [world.index["m[1]"]]
    assert (world.states()["m"], world.run.active_tasks) == (S, 0)


def failed() -> SimulatedRun:
    """A run that failed at its first task."""
    world = SimulatedRun(graph("a", "b < a", "c < b", "d:one_failed < a", "x"))
    world.admit("a", "x")
    world.finish(a=False, x=True)
    world.admit("d")
    world.finish(d=True)
    return world


def test_tasks_that_a_marked_task_had_ruled_out_wait_again() -> None:
    world = failed()

    effects = marked("a", S, world)
    world.apply(effects)

    assert world.states() == {"a": S, "b": NONE, "c": NONE, "d": S, "x": S}
    assert [(event.state, event.reason) for event in world.published[-3:]] == [
        ("success", "marked by a user"),
        ("none", "cleared because task a was marked by a user"),
        ("none", "cleared because task a was marked by a user"),
    ]
    assert world.run.state is RunState.QUEUED
    assert [effect.due_at for effect in effects if isinstance(effect, UpdateSchedule)] == [NOW]
    world.check(decided=False)


def test_an_active_task_that_is_marked_is_killed_and_its_end_changes_nothing() -> None:
    world = SimulatedRun(graph("a*3", "b < a"))
    world.admit("a")

    effects = marked("a", S, world)
    world.apply(effects)
    world.finish(a=False)

    assert [(e.task_index, e.reason) for e in effects if isinstance(e, KillSubmissions)] == [(0, "marked by a user")]
    assert world.states() == {"a": S, "b": NONE}
    assert Reconsider(1) in world.others
    world.check()


def test_tasks_after_a_marked_one_are_decided_when_the_run_is_reconsidered() -> None:
    world = SimulatedRun(graph("a", "b < a"))
    world.apply(marked("a", F, world))

    world.reconsider()

    assert (world.states(), world.run.state) == ({"a": F, "b": UF}, RunState.FAILED)


@pytest.mark.parametrize(
    "make", [lambda world: end_wanted(RunState.SUCCESS, world), lambda world: marked("a", S, world)], ids=["run", "task"]
)
def test_the_next_run_of_a_sequential_dag_is_reconsidered(make: Callable[[SimulatedRun], list[Effect]]) -> None:
    world = SimulatedRun(graph(task("a", depends_on_past=True), "b"))
    world.admit("a")

    assert [effect for effect in make(world) if isinstance(effect, ReconsiderAfter)] == [ReconsiderAfter("d", 1)]
