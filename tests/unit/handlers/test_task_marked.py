"""Users end runs, and have it that tasks or runs ended otherwise than they did."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from tests.shapes import NOW, dag_view, graph, message, queued, task
from tests.unit.handlers.world import World
from tidegate.handlers import run_end_requested, task_marked
from tidegate.handlers.load_run import WholeRun
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.dag import SetClock
from tidegate.schemas.effect.run import Reconsider, ReconsiderAfter, UpdateRun
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.effect.task import OutletUpdated
from tidegate.schemas.message import RunEndRequested, TaskMarked
from tidegate.schemas.state import RunState, TaskState

NONE, SCHEDULED = TaskState.NONE, TaskState.SCHEDULED
S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED
NO_DAG = RejectMessage(0, "no_such_dag", "there is no DAG 'd'; `tidegate dags list` shows those there are")
NO_RUN = RejectMessage(0, "no_such_run", "DAG 'd' has no run 'r1'; `tidegate runs list d` shows those there are")


def found(world: World) -> WholeRun:
    """The run as a whole; its DAG may have one at a time, and another waits."""
    dag = graph("t", limit=1)
    running = int(world.run.state is RunState.RUNNING)
    view = dag_view(dag, running=running, queued=1, queued_runs=queued(dag, 8))
    return WholeRun(NOW, view, world.run, world.graph, tuple(msgspec.structs.replace(task) for task in world.tasks.values()))


def end_wanted(state: RunState, world: World) -> list[Effect]:
    wish = RunEndRequested(dag_id="d", run_id="r1", state=state, reason="by hand")
    return list(run_end_requested.decide([message(wish)], found(world)))


def marked(task_id: str, state: TaskState, world: World) -> list[Effect]:
    wish = TaskMarked(dag_id="d", run_id="r1", task_id=task_id, state=state)
    return list(task_marked.decide([message(wish)], found(world)))


def half_done() -> World:
    """Each task is in another state."""
    world = World(graph("done", "failed", "works", "waits", "tried*1", "later < works", "after < failed"))
    world.admit("done", "failed", "works", "tried")
    world.finish(done=True, failed=False, tried=False)
    return world


def others(effects: Sequence[Effect]) -> list[int]:
    """The other runs that are started."""
    return [effect.id for effect in effects if isinstance(effect, UpdateRun) and effect.id != 1]


def test_a_run_that_is_ended_has_failed_and_what_works_is_killed() -> None:
    world = half_done()

    effects = end_wanted(RunState.FAILED, world)
    world.apply(effects)

    assert world.states() == {"done": S, "failed": F, "works": F, "waits": K, "tried": K, "later": K, "after": UF}
    assert [(e.task_index, e.reason) for e in effects if isinstance(e, KillSubmissions)] == [(None, "by hand")]
    assert others(effects) == [8]


def test_a_run_that_is_marked_as_a_success_has_succeeded_with_all_its_tasks() -> None:
    world = half_done()

    effects = end_wanted(RunState.SUCCESS, world)
    world.apply(effects)

    assert set(world.states().values()) == {S}
    assert (world.run.state, world.run.unfinished, world.run.failed_leaves) == (RunState.SUCCESS, 0, 0)
    assert [(e.task_index, e.reason) for e in effects if isinstance(e, KillSubmissions)] == [(None, "by hand")]
    assert others(effects) == [8]


@pytest.mark.parametrize("state", [RunState.SUCCESS, RunState.FAILED])
def test_where_nothing_works_nothing_is_killed(state: RunState) -> None:
    assert not any(isinstance(effect, KillSubmissions) for effect in end_wanted(state, World(graph("a"))))


def test_a_task_that_only_is_said_to_have_succeeded_has_updated_nothing() -> None:
    world = World(graph(task("a", outlets=("s://x",))))

    effects = [*end_wanted(RunState.SUCCESS, world), *marked("a", S, world)]

    assert not any(isinstance(effect, OutletUpdated) for effect in effects)


def test_a_task_that_is_no_part_of_a_run_stays_out_of_it() -> None:
    world = World(graph("a", task("b", end_date=NOW.replace(year=2020))), logical_date=NOW)

    world.apply(end_wanted(RunState.SUCCESS, world))

    assert world.states() == {"a": S, "b": TaskState.REMOVED}


@pytest.mark.parametrize(("state", "after"), [(RunState.SUCCESS, RunState.FAILED), (RunState.FAILED, RunState.SUCCESS)])
def test_a_run_that_had_ended_is_marked_otherwise_without_making_room(state: RunState, after: RunState) -> None:
    world = World(graph("a"))
    world.admit("a")
    world.finish(a=state is RunState.SUCCESS)

    effects = end_wanted(after, world)
    world.apply(effects)

    assert [event.state for event in world.journal] == ["queued", "running", state, after]
    assert others(effects) == []


def test_a_run_is_not_ended_twice() -> None:
    world = World(graph("a!"))

    effects = end_wanted(RunState.SUCCESS, world)

    assert effects == [RejectMessage(0, "ended_so", "run 'r1' has already ended as success")]


@pytest.mark.parametrize(
    ("state", "rejected"),
    [(WholeRun(NOW), NO_DAG), (WholeRun(NOW, dag_view(graph("t"))), NO_RUN)],
    ids=["no such DAG", "no such run"],
)
def test_what_does_not_exist_is_neither_ended_nor_marked(state: WholeRun, rejected: RejectMessage) -> None:
    end = RunEndRequested(dag_id="d", run_id="r1", state=RunState.FAILED, reason="by hand")
    mark = TaskMarked(dag_id="d", run_id="r1", task_id="t", state=S)

    effects = [*run_end_requested.decide([message(end)], state), *task_marked.decide([message(mark)], state)]

    assert effects == [rejected, rejected]


def test_a_task_that_does_not_exist_is_not_marked() -> None:
    effects = marked("nobody", S, World(graph("a")))

    assert effects == [RejectMessage(0, "no_such_task", "run 'r1' has no task 'nobody', or has not started")]


def failed() -> World:
    """A run that failed at its first task."""
    world = World(graph("a", "b < a", "c < b", "d:one_failed < a", "x"))
    world.admit("a", "x")
    world.finish(a=False, x=True)
    world.admit("d")
    world.finish(d=True)
    return world


def test_what_was_given_up_because_of_a_task_waits_again_once_it_is_marked_otherwise() -> None:
    world = failed()

    effects = marked("a", S, world)
    world.apply(effects)

    assert world.states() == {"a": S, "b": NONE, "c": NONE, "d": S, "x": S}
    assert [(event.state, event.reason) for event in world.published[-3:]] == [
        ("success", "marked by a user"),
        ("none", "cleared by a user"),
        ("none", "cleared by a user"),
    ]
    assert world.run.state is RunState.QUEUED
    assert [effect.due_at for effect in effects if isinstance(effect, SetClock)] == [NOW]
    world.check(decided=False)


def test_a_task_at_work_that_is_marked_is_killed_and_its_end_changes_nothing() -> None:
    world = World(graph("a*3", "b < a"))
    world.admit("a")

    effects = marked("a", S, world)
    world.apply(effects)
    world.finish(a=False)

    assert [(e.task_index, e.reason) for e in effects if isinstance(e, KillSubmissions)] == [(0, "marked by a user")]
    assert world.states() == {"a": S, "b": NONE}
    assert Reconsider(1) in world.others
    world.check()


def test_what_comes_after_a_marked_task_is_decided_when_the_run_is_looked_at() -> None:
    world = World(graph("a", "b < a"))
    world.apply(marked("a", F, world))

    world.reconsider()

    assert (world.states(), world.run.state) == ({"a": F, "b": UF}, RunState.FAILED)


@pytest.mark.parametrize(
    "make", [lambda world: end_wanted(RunState.SUCCESS, world), lambda world: marked("a", S, world)], ids=["run", "task"]
)
def test_the_next_run_is_reconsidered_when_a_task_of_it_depends_on_the_past(make: Callable[[World], list[Effect]]) -> None:
    world = World(graph(task("a", depends_on_past=True), "b"))
    world.admit("a")

    assert [effect for effect in make(world) if isinstance(effect, ReconsiderAfter)] == [ReconsiderAfter("d", 1)]
