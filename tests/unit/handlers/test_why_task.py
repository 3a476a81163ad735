"""The gates of a task instance and what opens them, gate by gate."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, get_args

import msgspec
import pytest

from tests.shapes import NOW, graph, run_view, task
from tidegate.handlers.found import Found, index_of
from tidegate.handlers.past import Past
from tidegate.handlers.remedy import _CHANGES, changes
from tidegate.handlers.room import State
from tidegate.handlers.tally import count_anew
from tidegate.handlers.why_task import chain
from tidegate.schemas import chain as shown
from tidegate.schemas import progress, remedy
from tidegate.schemas.chain import Chain, GateState
from tidegate.schemas.dag import TaskSpec, TriggerRule
from tidegate.schemas.graph import Graph, element_index
from tidegate.schemas.queries.leases import Away, JobRow, Terms
from tidegate.schemas.queries.progress import RunFacts
from tidegate.schemas.queries.whynot import AttemptFacts, AtWork, Circumstances, Place
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance, PoolView, WaitingTask

BEFORE, LATER = NOW - timedelta(minutes=5), NOW + timedelta(minutes=5)
NONE, SCHEDULED, QUEUED, RUNNING = TaskState.NONE, TaskState.SCHEDULED, TaskState.QUEUED, TaskState.RUNNING
S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED

AROUND = Circumstances("d.py", None, None, None, None, 3, BEFORE, None, 0, None, ["r1"])
RUN = RunFacts(
    run_view(state=RunState.RUNNING, start_date=BEFORE),
    1,
    is_paused=False,
    is_stale=False,
    running_runs=1,
    runs_ahead=0,
    run_before="r0",
)
DAEMON = JobRow("h", 7, BEFORE, NOW, Terms(), {})
ATTEMPT = AttemptFacts("command", "accepted", BEFORE, BEFORE, BEFORE, NOW, None, "h", "", None, 0, has_owner=True)
POOL = PoolView(name="default_pool", open=3, slots=4)
OTHER = AtWork("e", "x", "t", 1, BEFORE)
MINE = AtWork("d", "r1", "b", 1, BEFORE)


def found(dag: Graph, *states: TaskState, run: Mapping[str, Any] | None = None, **facts: Any) -> Found:
    """The last task of a run, with tasks in these states; those of a run that has not started have none."""
    instances = {index: Instance(index, state) for index, state in enumerate(states)}
    for index in instances:
        count_anew(dag, instances, index)
    index = max(instances, default=len(dag.nodes) - 1)
    around = {name: facts.pop(name) for name in Circumstances.__struct_fields__ if name in facts}
    given = dict(run or {})
    view = msgspec.structs.replace(RUN.run, **{name: given.pop(name) for name in list(given) if name in run_fields()})
    usual: dict[str, Any] = {"now": NOW, "limit": 2, "daemons": [DAEMON], "place": Place("default_pool", 1, BEFORE, None, None)}
    return Found(
        graph=dag,
        run=msgspec.structs.replace(RUN, run=view, **given),
        around=msgspec.structs.replace(AROUND, **around),
        instance=instances.get(index, Instance(index)),
        instances=instances,
        **{**usual, **facts},
    )


def run_fields() -> tuple[str, ...]:
    return RUN.run.__struct_fields__


def queued(**facts: Any) -> Found:
    """A task of a run that has not started."""
    run = {"state": RunState.QUEUED, "start_date": None, **facts.pop("run", {})}
    return found(graph("a", "b < a"), run=run, place=None, **facts)


def waiting(
    task: Mapping[str, Any] | None = None, run: Mapping[str, Any] | None = None, *others: WaitingTask, **facts: Any
) -> Found:
    """A task that waits for slots after others; facts called `pool_…` are of its pool."""
    pool = {name.removeprefix("pool_"): facts.pop(name) for name in list(facts) if name.startswith("pool_")}
    mine = msgspec.structs.replace(WaitingTask(1, 0, "d", "a", SCHEDULED, 0), **(task or {}))
    limited = facts.pop("limited", ())
    spec = TASK if mine.per_dag is None and mine.per_run is None else LIMITED
    base = found(graph(spec), SCHEDULED, run=run, **facts)
    runs = {each.dag_run_id: run_view(each.dag_run_id, state=RunState.RUNNING, max_active_tasks=99) for each in others}
    view = msgspec.structs.replace(POOL, **pool)
    state = State(NOW, view, (*others, mine), limited=limited, runs={**runs, 1: base.run.run})
    return msgspec.structs.replace(base, admission=state)


TASK: TaskSpec = task("a")
LIMITED: TaskSpec = task("a", max_active_per_dag=2, max_active_per_run=1)


def before(run: int, slots: int = 1) -> WaitingTask:
    """One that comes first."""
    return WaitingTask(run, 0, "e", "t", SCHEDULED, 0, slots)


def closed(page: Chain) -> dict[str, object]:
    return {gate.name: gate.block for gate in page.closed}


CLEAR = remedy.Clear("d", "r1", ("b",))
ONE_DAEMON_AWAY = msgspec.structs.replace(DAEMON, away={"the runners": Away(BEFORE, "no space"), "Kafka": Away(BEFORE, "gone")})

GATES = [
    pytest.param(queued(), {}, (), id="a run that is about to start"),
    pytest.param(queued(run={"run_after": LATER}), {"timing": progress.NotYetDue(LATER)}, (remedy.Wait(LATER),), id="timing"),
    pytest.param(queued(run={"is_paused": True}), {"pause": progress.DagPaused()}, (remedy.Unpause("d"),), id="pause of a run"),
    pytest.param(
        found(graph("a"), NONE, run={"is_paused": True}), {"pause": progress.DagPaused()}, (remedy.Unpause("d"),), id="pause"
    ),
    pytest.param(found(graph("a"), RUNNING, run={"is_paused": True}, attempt=ATTEMPT), {}, (), id="pause of what runs"),
    pytest.param(
        queued(run={"is_stale": True}), {"DAG file": progress.DagStale()}, (remedy.RestoreFile("d", "d.py"),), id="file"
    ),
    pytest.param(found(graph("a"), NONE, run={"is_stale": True}), {}, (), id="a run that has started needs no file"),
    pytest.param(
        queued(run={"running_runs": 2}, running=["r0", "r9"]),
        {"run limit": progress.DagLimit(2)},
        (remedy.RaiseRuns("d", "d.py", 3, ("r0", "r9")),),
        id="run limit",
    ),
    pytest.param(
        queued(run={"running_runs": 2, "runs_ahead": 3}),
        {"run limit": progress.DagLimit(2), "runs before it": progress.RunsAhead(3)},
        (remedy.RaiseRuns("d", "d.py", 6, ("r1",)),),
        id="run limit and runs before it",
    ),
    pytest.param(
        queued(run={"running_runs": 0, "runs_ahead": 1}), {"runs before it": progress.RunsAhead(1)}, (), id="runs about to start"
    ),
    pytest.param(
        found(graph("a"), NONE, run={"state": RunState.FAILED}, reason="deadlock", end_date=NOW),
        {"run state": shown.RunEnded(RunState.FAILED, "deadlock")},
        (remedy.Clear("d", "r1", ("a",)),),
        id="run state",
    ),
    pytest.param(
        found(graph("a", "b < a", "c", "d < b c"), RUNNING, NONE, S, NONE),
        {"upstream": progress.UpstreamNotDone(("b",))},
        (remedy.EndUpstream("d", "r1", ("a",)),),
        id="upstream",
    ),
    pytest.param(found(graph("a", "b:one_success < a"), S, NONE), {}, (), id="its turn"),
    pytest.param(
        found(graph("a", "b < a"), F, UF),
        {"trigger rule": shown.RuledOut(TriggerRule.ALL_SUCCESS, UF)},
        (remedy.Clear("d", "r1", ("a",)),),
        id="trigger rule",
    ),
    pytest.param(
        found(graph("a", "c < a", "b < c"), F, UF, UF),
        {"trigger rule": shown.RuledOut(TriggerRule.ALL_SUCCESS, UF)},
        (remedy.Clear("d", "r1", ("a",)),),
        id="trigger rule, further up",
    ),
    pytest.param(
        found(graph("a", "b < a"), K, K),
        {"trigger rule": shown.RuledOut(TriggerRule.ALL_SUCCESS, K)},
        (remedy.Clear("d", "r1", ("a",)),),
        id="skipped like what is before it",
    ),
    pytest.param(
        found(graph("a", "b < a"), S, K),
        {"trigger rule": shown.RuledOut(TriggerRule.ALL_SUCCESS, K)},
        (CLEAR,),
        id="a branch",
    ),
    pytest.param(
        found(graph("a", "b:all_failed < a"), S, K),
        {"trigger rule": shown.RuledOut(TriggerRule.ALL_FAILED, K)},
        (),
        id="nothing can help a rule that waits for failures",
    ),
    pytest.param(
        found(graph("a"), TaskState.REMOVED),
        {"trigger rule": shown.RuledOut(TriggerRule.ALL_SUCCESS, TaskState.REMOVED)},
        (),
        id="no part of the run",
    ),
    pytest.param(
        found(graph("a"), F, attempt=msgspec.structs.replace(ATTEMPT, state="failed", reason="x")),
        {"next try": shown.TaskEnded(F, 0, "x")},
        (remedy.Clear("d", "r1", ("a",)),),
        id="failed for good",
    ),
    pytest.param(
        found(graph("a"), F),
        {"next try": shown.TaskEnded(F, 0, "")},
        (remedy.Clear("d", "r1", ("a",)),),
        id="marked as failed",
    ),
    pytest.param(
        waiting({"pool_slots": 2}, pool_open=1, occupied=3, in_pool=(OTHER,)),
        {"pool": progress.PoolFull("default_pool", 4, 1, 2)},
        (remedy.SetSlots("default_pool", 5, ("e x t",)),),
        id="pool",
    ),
    pytest.param(
        waiting(pool_open=0, pool_slots=None, pool_exists=False),
        {"pool": progress.PoolMissing("default_pool")},
        (remedy.SetSlots("default_pool", 1),),
        id="no such pool",
    ),
    pytest.param(
        waiting({"pool_slots": 9}),
        {"pool": progress.PoolTooSmall("default_pool", 4, 9)},
        (remedy.SetSlots("default_pool", 9),),
        id="too small a pool",
    ),
    pytest.param(
        waiting(None, None, before(2), before(3, 2), pool_open=1, occupied=3),
        {"priority": shown.Outranked("default_pool", 1)},
        (remedy.SetSlots("default_pool", 5),),
        id="priority",
    ),
    pytest.param(
        waiting(run={"active_tasks": 16}, in_run=(MINE,)),
        {"max_active_tasks": progress.RunLimit(16)},
        (remedy.EndTasks("max_active_tasks", 1, (("d", "r1", "b"),)),),
        id="max_active_tasks",
    ),
    pytest.param(
        waiting(run={"active_tasks": 16}, pool_open=0, occupied=4, in_run=(MINE,), in_pool=(MINE, OTHER)),
        {"pool": progress.PoolFull("default_pool", 4, 0, 1), "max_active_tasks": progress.RunLimit(16)},
        (remedy.EndTasks("max_active_tasks", 1, (("d", "r1", "b"),)),),
        id="what is to end gives back its slots",
    ),
    pytest.param(
        waiting(run={"active_tasks": 16}, pool_open=0, occupied=4, in_run=(MINE,), in_pool=(OTHER,)),
        {"pool": progress.PoolFull("default_pool", 4, 0, 1), "max_active_tasks": progress.RunLimit(16)},
        (
            remedy.SetSlots("default_pool", 5, ("e x t",)),
            remedy.EndTasks("max_active_tasks", 1, (("d", "r1", "b"),)),
        ),
        id="a limit and a pool",
    ),
    pytest.param(
        waiting({"per_run": 1}, limited=(("d", 1, "a"),), of_task=(MINE, msgspec.structs.replace(MINE, run_id="r2"))),
        {"max_active_tis_per_dagrun": progress.TaskLimitInRun(1)},
        (remedy.EndTasks("max_active_tis_per_dagrun", 1, (("d", "r1", "b"),)),),
        id="max_active_tis_per_dagrun",
    ),
    pytest.param(
        waiting({"per_dag": 2}, limited=(("d", 2, "a"),) * 3, of_task=(MINE,)),
        {"max_active_tis_per_dag": progress.TaskLimitInDag(2)},
        (remedy.EndTasks("max_active_tis_per_dag", 2, (("d", "r1", "b"),)),),
        id="max_active_tis_per_dag",
    ),
    pytest.param(
        waiting(pool_parallel=0, pool_parallelism=6, active=7),
        {"parallelism": progress.Parallelism(6)},
        (remedy.SetParallelism(8),),
        id="parallelism",
    ),
    pytest.param(waiting(pool_open=None, pool_slots=None), {}, (), id="any number of slots"),
    pytest.param(
        waiting(run={"active_tasks": 16}, pool_open=None, pool_slots=None, in_run=(MINE,)),
        {"max_active_tasks": progress.RunLimit(16)},
        (remedy.EndTasks("max_active_tasks", 1, (("d", "r1", "b"),)),),
        id="a limit beside any number of slots",
    ),
    pytest.param(
        found(graph("a"), QUEUED, attempt=msgspec.structs.replace(ATTEMPT, state="intent", started_at=None, submitted_at=None)),
        {"submission": shown.NotSubmitted("command", "intent")},
        (remedy.Wait(None),),
        id="submission",
    ),
    pytest.param(
        found(graph("a"), QUEUED, attempt=msgspec.structs.replace(ATTEMPT, state="intent"), daemons=[ONE_DAEMON_AWAY] * 2),
        {"submission": shown.NotSubmitted("command", "intent"), "backend": shown.ServerAway("the runners", "no space")},
        (remedy.BringBack("the runners"),),
        id="backend",
    ),
    pytest.param(
        found(graph("a"), QUEUED, attempt=msgspec.structs.replace(ATTEMPT, state="intent"), daemons=[ONE_DAEMON_AWAY, DAEMON]),
        {"submission": shown.NotSubmitted("command", "intent")},
        (remedy.Wait(None),),
        id="another daemon reaches the backend",
    ),
    pytest.param(found(graph("a"), RUNNING, attempt=ATTEMPT, daemons=[ONE_DAEMON_AWAY]), {}, (), id="it runs all the same"),
    pytest.param(
        found(graph("a"), QUEUED, attempt=msgspec.structs.replace(ATTEMPT, state="intent"), daemons=[]),
        {"submission": shown.NotSubmitted("command", "intent"), "daemons": progress.NoDaemon()},
        (remedy.StartDaemon(),),
        id="daemons",
    ),
    pytest.param(found(graph("a"), S, attempt=ATTEMPT, daemons=[]), {}, (), id="it has run"),
]


@pytest.mark.parametrize(("around", "gates", "change"), GATES)
def test_a_gate_is_closed_for_a_reason_and_something_opens_it(
    around: Found, gates: dict[str, object], change: tuple[remedy.Change, ...]
) -> None:
    page = chain(around)

    assert (closed(page), page.change) == (gates, change)


PATIENT = graph(task("a", depends_on_past=True))


@pytest.mark.parametrize(
    ("past", "change"),
    [
        pytest.param(Past(None), (remedy.EndUpstream("d", "r0", ("a",)),), id="it has not started"),
        pytest.param(Past({"a": RUNNING}), (remedy.EndUpstream("d", "r0", ("a",)),), id="it works"),
        pytest.param(Past({"a": F}), (remedy.Clear("d", "r0", ("a",)),), id="it failed"),
        pytest.param(None, (), id="it is about to be looked at again"),
    ],
)
def test_what_the_run_before_holds_up_is_to_end_or_to_run_again_there(past: Past | None, change: object) -> None:
    held = found(PATIENT, NONE, past=past)
    held.instance.waits_for_past = True

    page = chain(held)

    assert (closed(page), page.change) == ({"run before": progress.RunBefore("r0")}, change)


def test_a_run_without_one_before_it_says_no_more_than_that() -> None:
    held = found(PATIENT, NONE, run={"run_before": None}, past=Past(None))
    held.instance.waits_for_past = True

    assert chain(held).change == ()


def test_a_task_waits_for_its_next_try() -> None:
    failed = msgspec.structs.replace(ATTEMPT, state="failed", reason="no disk", ended_at=NOW)
    held = found(graph("a*1"), TaskState.UP_FOR_RETRY, attempt=failed)
    held.instance.next_try_at, held.instance.try_number, held.instance.max_tries = LATER, 1, 2

    page = chain(held)

    (gate,) = page.closed
    assert (gate.name, gate.block, gate.since) == ("next try", progress.NextTry(LATER), NOW)
    assert gate.facts == {"tries": 1, "of": 2, "reason": "no disk"}
    assert page.change == (remedy.Wait(LATER),)


def mapped(*elements: TaskState) -> Found:
    """A mapped task with instances in these states."""
    dag = graph("a", task("b < a", over="a"))
    held = found(dag, S, NONE)
    held.instance.elements = held.instance.awaited = len(elements)
    held.instance.success = elements.count(S)
    born = {element_index(1, number): Instance(element_index(1, number), state) for number, state in enumerate(elements)}
    return msgspec.structs.replace(held, instances={**held.instances, **born})


def test_a_mapped_task_waits_for_its_instances() -> None:
    page = chain(mapped(S, SCHEDULED, RUNNING))

    assert closed(page) == {"upstream": progress.ElementsNotDone(2, 3)}
    assert page.change == (remedy.EndUpstream("d", "r1", ("b[1]", "b[2]")),)


def test_an_instance_of_a_mapped_task_has_no_upstream_of_its_own() -> None:
    around = mapped(NONE)
    element = msgspec.structs.replace(around, instance=around.instances[element_index(1, 0)])

    page = chain(element)

    assert (page.task, closed(page)) == ("b[0]", {})
    assert next(gate.facts for gate in page.gates if gate.name == "upstream") == {}


def test_gates_behind_a_closed_one_are_not_reached() -> None:
    page = chain(found(graph("a", "b < a"), RUNNING, NONE))

    states = {gate.name: gate.state for gate in page.gates}
    assert [name for name, state in states.items() if state is GateState.NOT_REACHED] == [
        "trigger rule",
        "next try",
        "pool",
        "priority",
        "max_active_tasks",
        "submission",
        "backend",
    ]


def test_every_obstacle_has_something_that_may_open_it() -> None:
    assert set(_CHANGES) == set(get_args(shown.Obstacle))


def test_who_does_not_wait_for_slots_is_given_no_larger_pool() -> None:
    gate = shown.Gate(name="pool", state=GateState.CLOSED, block=progress.PoolMissing("p"))

    assert changes(found(graph("a"), NONE), [gate]) == ()


def test_the_state_of_a_task_of_a_run_that_has_not_started_is_none() -> None:
    assert (chain(queued()).state, chain(found(graph("a"), NONE)).state) == (None, NONE)


def test_a_submission_that_was_abandoned_is_told_with_what_is_known() -> None:
    lost = msgspec.structs.replace(ATTEMPT, state="submitting", has_owner=False, kill_reason="cleared", ahead=3)

    gates = {gate.name: gate for gate in chain(found(graph("a"), QUEUED, attempt=lost)).gates}

    assert gates["submission"].facts == {
        "state": "submitting",
        "host": "h",
        "before_it": 3,
        "daemon": "gone",
        "to_be_killed": "cleared",
        "last_sign_of_life": NOW,
    }


def test_tasks_are_found_by_their_names() -> None:
    dag = graph("a", task("b < a", over="a"))

    assert [index_of(dag, label) for label in ("a", "b", "b[2]", "c", "b[x]")] == [0, 1, element_index(1, 2), None, None]


@pytest.mark.parametrize(
    ("around", "there"),
    [
        (queued(), True),
        (found(graph("a"), NONE), True),
        (found(graph("a"), NONE, place=None), False),
        (msgspec.structs.replace(queued(), instance=Instance(element_index(0, 1))), False),
    ],
)
def test_a_run_has_a_task_once_it_has_started_or_its_version_has(around: Found, there: bool) -> None:
    assert around.is_there is there
