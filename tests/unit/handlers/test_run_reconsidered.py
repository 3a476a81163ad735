"""Reconsidered runs: waiting tasks are decided about again, deadlocked runs fail, and so do runs that are to stop."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from tests.shapes import NOW, dag_view, graph, message, queued, task
from tests.unit.handlers.simulated_run import SimulatedRun, started
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers.run_reconsidered import decide, has_failed
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import CountFailures
from tidegate.schemas.effect.deadline import Notify
from tidegate.schemas.effect.run import ReconsiderAfter, RunMoved, UpdateRun
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.effect.task import InsertTask, TaskMoved, UpdateTask
from tidegate.schemas.message import RunReconsidered
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.receiver import Callback, FunctionReceiver, On
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import DagView, Instance

NONE, SCHEDULED, RUNNING = TaskState.NONE, TaskState.SCHEDULED, TaskState.RUNNING
S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED

ASKED = [message(RunReconsidered(dag_run_id=1))]


def found_as(world: SimulatedRun, states: Mapping[str, TaskState]) -> SimulatedRun:
    """The same run with its tasks in these states and counts, as a clear or a mark may leave it."""
    for task_id, state in states.items():
        index = world.index[task_id]
        world.tasks[index] = msgspec.structs.replace(world.tasks[index], state=state)
    for index, node in enumerate(world.graph.nodes):
        above = [world.tasks[world.index[task_id]].state for task_id in node.task.upstream]
        world.tasks[index] = counted(world.tasks[index], above)
    unfinished = sum(task.state not in (S, F, K, UF) for task in world.tasks.values())
    failed = sum(n.decisive and world.tasks[i].state in (F, UF) for i, n in enumerate(world.graph.nodes))
    world.run = msgspec.structs.replace(world.run, unfinished=unfinished, failed_leaves=failed)
    return world


def counted(task: Instance, above: Sequence[TaskState]) -> Instance:
    return msgspec.structs.replace(
        task, success=above.count(S), failed=above.count(F), skipped=above.count(K), upstream_failed=above.count(UF)
    )


@pytest.mark.parametrize(
    ("states", "after"),
    [
        pytest.param({"a": S, "b": NONE}, {"a": S, "b": SCHEDULED, "c": NONE}, id="its turn has come"),
        pytest.param({"a": F, "b": NONE}, {"a": F, "b": UF, "c": UF}, id="it never will"),
        pytest.param({"a": K, "b": NONE}, {"a": K, "b": K, "c": K}, id="it is skipped"),
        pytest.param({"a": NONE, "b": NONE}, {"a": SCHEDULED, "b": NONE, "c": NONE}, id="from the beginning"),
        pytest.param({"a": RUNNING, "b": NONE}, {"a": RUNNING, "b": NONE, "c": NONE}, id="it waits on"),
        pytest.param({"a": S, "b": RUNNING, "c": NONE}, {"a": S, "b": RUNNING, "c": NONE}, id="what works is left alone"),
    ],
)
def test_waiting_tasks_are_decided_about_again(states: Mapping[str, TaskState], after: Mapping[str, TaskState]) -> None:
    world = found_as(SimulatedRun(graph("a", "b < a", "c < b")), states)

    world.reconsider()

    assert world.states() == after
    assert world.run.unfinished == sum(state not in (S, F, K, UF) for state in after.values())


@pytest.mark.parametrize(
    ("states", "state"),
    [
        pytest.param({"a": S, "b": S}, RunState.SUCCESS, id="R11 R22 success success"),
        pytest.param({"a": S, "b": K}, RunState.SUCCESS, id="R11 R22 success skipped"),
        pytest.param({"a": K, "b": K}, RunState.SUCCESS, id="R11 R22 skipped skipped"),
        pytest.param({"a": S, "b": F}, RunState.FAILED, id="R11 R22 success failed"),
        pytest.param({"a": UF, "b": S}, RunState.FAILED, id="R11 R22 upstream_failed success"),
        pytest.param({"a": K, "b": F}, RunState.FAILED, id="R11 R22 skipped failed"),
        pytest.param({"a": RUNNING, "b": F}, RunState.RUNNING, id="R11 R22 running failed"),
        pytest.param({"a": RUNNING, "b": S}, RunState.RUNNING, id="R11 R22 running success"),
    ],
)
def test_a_run_without_unfinished_tasks_ends(states: Mapping[str, TaskState], state: RunState) -> None:
    world = found_as(SimulatedRun(graph("a", "b")), states)

    world.reconsider()

    assert (world.run.state, world.journal[-1].state) == (state, state)


def test_a_deadlocked_run_fails_and_names_its_waiting_tasks() -> None:
    """R21"""
    world = SimulatedRun(graph("a", "b < a", "c < b"))
    world.tasks[0] = msgspec.structs.replace(world.tasks[0], state=S)
    world.tasks[1] = msgspec.structs.replace(world.tasks[1], elements=2, awaited=2)  # which are nowhere

    world.reconsider()

    assert world.run.state is RunState.FAILED
    assert world.journal[-1].reason == "deadlock: no task of the run can run any more, and these have not: b, c"


@pytest.mark.parametrize("state", [SCHEDULED, TaskState.QUEUED, RUNNING, TaskState.UP_FOR_RETRY])
def test_a_run_with_an_active_or_ready_task_is_not_deadlocked(state: TaskState) -> None:
    """R21"""
    world = SimulatedRun(graph("a", "b < a", "x"))
    world.tasks |= {i: msgspec.structs.replace(world.tasks[i], state=s) for i, s in ((0, S), (2, state))}

    world.reconsider()

    assert world.run.state is RunState.RUNNING


def test_a_run_with_a_reason_to_stop_fails_and_its_active_tasks_are_killed() -> None:
    world = SimulatedRun(graph("works", "waits", "later < works"))
    world.admit("works")

    world.reconsider(stop="enough")

    assert world.states() == {"works": F, "waits": K, "later": K}
    assert (world.run.state, world.run.unfinished, world.run.active_tasks) == (RunState.FAILED, 0, 0)
    assert (world.journal[-1].state, world.journal[-1].reason) == ("failed", "enough")
    assert [effect for effect in world.others if isinstance(effect, KillSubmissions)] == [KillSubmissions(1, None, "enough")]


def test_without_active_tasks_nothing_is_killed() -> None:
    world = SimulatedRun(graph("a", "b < a"))

    world.reconsider(stop="enough")

    assert not any(isinstance(effect, KillSubmissions) for effect in world.others)


def test_a_stopped_run_keeps_its_ended_tasks() -> None:
    world = SimulatedRun(graph("a", "b", "c*1", "d < a"))
    world.admit("a", "b", "c")
    world.finish(a=True, b=False, c=False)

    world.reconsider(stop="enough")

    assert world.states() == {"a": S, "b": F, "c": K, "d": K}
    assert [task.next_try_at for task in world.tasks.values()] == 4 * [None]


@pytest.mark.parametrize("stop", ["", "enough"], ids=["to be judged", "to be stopped"])
@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.SUCCESS, RunState.FAILED])
def test_a_run_that_is_not_running_is_not_changed(state: RunState, stop: str) -> None:
    world = SimulatedRun(graph("a"))
    world.run = msgspec.structs.replace(world.run, state=state)

    assert well_formed(decide(ASKED, world.whole(stop=stop))) == []


def decided(world: SimulatedRun, dag: DagView, *, stop: str = "") -> list[Effect]:
    return well_formed(decide(ASKED, msgspec.structs.replace(world.whole(stop=stop), dags=(dag,))))


@pytest.mark.parametrize("stop", ["", "enough"], ids=["it is over", "it is stopped"])
def test_the_end_of_a_run_starts_a_queued_one(stop: str) -> None:
    dag = graph("a", limit=1)
    world = found_as(SimulatedRun(dag), {"a": S})

    effects = decided(world, dag_view(dag, running=1, queued=1, queued_runs=queued(dag, 8)), stop=stop)

    assert started(effects) == [8]


def test_a_run_that_keeps_running_keeps_its_slot() -> None:
    dag = graph("a", limit=1)

    effects = decided(SimulatedRun(dag), dag_view(dag, running=1, queued=1, queued_runs=queued(dag, 8)))

    assert started(effects) == [1]


@pytest.mark.parametrize(
    ("states", "stop", "count"),
    [({"a": S}, "", 0), ({"a": F}, "", 2), ({"a": S}, "enough", 2)],
    ids=["success", "failed", "stopped"],
)
def test_a_run_that_ends_counts_for_the_consecutive_failures_of_its_dag(
    states: Mapping[str, TaskState], stop: str, count: int
) -> None:
    """One run of the DAG failed before."""
    world = found_as(SimulatedRun(graph("a")), states)

    effects = decided(world, dag_view(graph("a", max_failed_runs=9), running=1, failed_runs=1), stop=stop)

    assert [effect.failed_runs for effect in effects if isinstance(effect, CountFailures)] == [count]


EARLIER = FailedTask(task_id="a", try_number=2, reason="no rows")


@pytest.mark.parametrize(
    ("stop", "reason"),
    [("", "task a failed in try 2: no rows"), ("enough", "enough")],
    ids=["it is over", "it is stopped"],
)
def test_a_run_fails_with_the_tasks_that_failed_before(stop: str, reason: str) -> None:
    world = found_as(SimulatedRun(graph("a", "b < a")), {"a": F, "b": NONE})

    effects = well_formed(decide(ASKED, msgspec.structs.replace(world.whole(stop=stop), failures={1: (EARLIER,)})))

    (moved,) = (effect.event for effect in effects if isinstance(effect, RunMoved))
    assert (moved.reason, moved.failed_tasks) == (reason, (EARLIER,))


def test_a_receiver_is_told_of_a_stopped_run_also_without_failed_tasks() -> None:
    world = SimulatedRun(graph("a", callbacks=(Callback(On.FAILURE, FunctionReceiver("tell")),)))

    effects = well_formed(decide(ASKED, world.whole(stop="enough")))

    told = [effect.context for effect in effects if isinstance(effect, Notify)]
    assert [(context.reason, context.failed_tasks) for context in told] == [("enough", ())]


@pytest.mark.parametrize(("above", "next_runs"), [(F, [ReconsiderAfter("d", 1)]), (S, [])], ids=["a task ends", "none ends"])
def test_the_next_run_of_a_sequential_dag_is_reconsidered_where_a_task_ends(above: TaskState, next_runs: list[Effect]) -> None:
    world = found_as(SimulatedRun(graph(task("a", depends_on_past=True), "b < a", "c")), {"a": above, "b": NONE})

    effects = well_formed(decide(ASKED, world.whole()))

    assert [effect for effect in effects if isinstance(effect, ReconsiderAfter)] == next_runs


def mapped(*states: TaskState) -> SimulatedRun:
    """A run whose first task has returned a list, over which the second one has instances in these states."""
    world = SimulatedRun(graph("list", task("m < list", over="list")))
    world.returns["list"] = [0, 1]
    world.admit("list")
    world.finish(list=True)
    for element, state in enumerate(states):
        index = world.index[f"m[{element}]"]
        world.tasks[index] = msgspec.structs.replace(world.tasks[index], state=state)
    world.tasks[1] = counted(world.tasks[1], states)
    return world


def test_a_mapped_task_fails_with_its_instances_that_failed_before() -> None:
    world = mapped(S, F)
    failed = FailedTask(task_id="m", map_index=1, try_number=1, reason="no rows")

    effects = well_formed(decide(ASKED, msgspec.structs.replace(world.whole(), failures={1: (failed,)})))

    assert [(effect.event.label, effect.event.reason) for effect in effects if isinstance(effect, TaskMoved)] == [
        ("m", "1 of 2 instances failed: m[1] failed in try 1: no rows")
    ]


def test_a_mapped_task_gets_its_instances_now() -> None:
    world = mapped()
    for index in [world.index["m[0]"], world.index["m[1]"]]:
        del world.tasks[index]
    world.tasks[1] = msgspec.structs.replace(world.tasks[1], elements=0, awaited=1)
    state = msgspec.structs.replace(world.whole(), lengths={1: {0: 2}})

    effects = well_formed(decide(ASKED, state))

    assert [effect.dates.scheduled_at for effect in effects if isinstance(effect, InsertTask)] == [NOW, NOW]


def test_a_mapped_task_without_a_list_fails() -> None:
    """No list of the run is stored."""
    world = mapped()
    for index in [world.index["m[0]"], world.index["m[1]"]]:
        del world.tasks[index]
    world.tasks[1] = msgspec.structs.replace(world.tasks[1], elements=0, awaited=1)

    effects = well_formed(decide(ASKED, msgspec.structs.replace(world.whole(), lengths={})))

    assert [(effect.event.label, effect.event.state) for effect in effects if isinstance(effect, TaskMoved)] == [("m", "failed")]


@pytest.mark.parametrize(
    ("states", "failed"), [((), False), ((S, UF), False), ((S, F), True)], ids=["no tasks", "none failed itself", "one failed"]
)
def test_failures_are_read_of_a_run_with_a_failed_task(states: Sequence[TaskState], failed: bool) -> None:
    assert has_failed({index: Instance(index, state) for index, state in enumerate(states)}) is failed


def test_moves_get_the_next_numbers_and_other_tasks_are_not_written() -> None:
    world = found_as(SimulatedRun(graph("a", "b < a", "x", "y < x")), {"a": S, "b": NONE})
    before = world.run.task_seq

    effects = well_formed(decide(ASKED, world.whole()))

    assert [(e.event.seq, e.event.label, e.event.state) for e in effects if isinstance(e, TaskMoved)] == [
        (before + 1, "b", "scheduled")
    ]
    assert [(e.instance.index, e.dates.scheduled_at) for e in effects if isinstance(e, UpdateTask)] == [(1, NOW)]
    assert [e.task_seq for e in effects if isinstance(e, UpdateRun)] == [before + 1]
    assert not any(isinstance(effect, RunMoved) for effect in effects)
