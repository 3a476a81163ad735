"""Explanations of tasks: the previous run, instances, attempts, names."""

from typing import get_args

import msgspec
import pytest

from tests.shapes import NOW, graph, task
from tests.unit.handlers.task_facts import (
    ATTEMPT,
    LATER,
    NONE,
    QUEUED,
    RUNNING,
    SCHEDULED,
    UF,
    F,
    S,
    closed,
    queued,
    task_facts,
)
from tests.unit.schemas.explain.test_reasons import TEXTS
from tidegate.handlers.explain.task import explain_task, task_changes
from tidegate.handlers.explain.task_facts import TaskFacts, index_of
from tidegate.schemas.explain import reasons, remedy
from tidegate.schemas.explain.facts import TaskRow
from tidegate.schemas.explain.gates import Gate, GateState
from tidegate.schemas.graph import element_index
from tidegate.schemas.state import TASK_ENDED, TaskState
from tidegate.schemas.view import Instance, PreviousRun

PATIENT = graph(task("a", depends_on_past=True))


@pytest.mark.parametrize(
    ("past", "change"),
    [
        pytest.param(PreviousRun(None), (remedy.EndUpstream("d", "r0", ("a",)),), id="it has not started"),
        pytest.param(PreviousRun({"a": RUNNING}), (remedy.EndUpstream("d", "r0", ("a",)),), id="it works"),
        pytest.param(PreviousRun({"a": F}), (remedy.Clear("d", "r0", ("a",)),), id="it failed"),
        pytest.param(PreviousRun({"b": S}), (), id="it has no such task"),
        pytest.param(PreviousRun({"a": TaskState.REMOVED}), (), id="the task was outside its dates"),
        pytest.param(
            PreviousRun({"a": UF}), (remedy.Clear("d", "r0", ("a",)),), id="what was before it is no part of the DAG now"
        ),
        pytest.param(None, (), id="it permits the task"),
    ],
)
def test_a_task_of_the_previous_run_has_to_end_or_to_be_cleared(past: PreviousRun | None, change: object) -> None:
    held = task_facts(PATIENT, NONE, previous=past)
    held.instance.waits_for_past = True

    page = explain_task(held)

    assert (closed(page), page.change) == ({"previous run": reasons.PreviousRunNotDone("r0")}, change)


@pytest.mark.parametrize("states", [{"b": S}, {"a": TaskState.REMOVED, "b": S}])
def test_a_task_that_the_previous_run_lacks_does_not_end_there(states: dict[str, TaskState]) -> None:
    strict = graph(task("a", depends_on_past=True, ignore_first_depends_on_past=False))
    held = task_facts(strict, NONE, previous=PreviousRun(states))
    held.instance.waits_for_past = True

    page = explain_task(held)

    assert (closed(page), page.change) == ({"previous run": reasons.PreviousRunNotDone("r0")}, ())


def test_of_a_chain_that_failed_in_the_previous_run_the_first_task_is_cleared() -> None:
    dag = graph("a", "b < a", task("c < b", depends_on_past=True))
    held = task_facts(dag, S, S, NONE, previous=PreviousRun({"a": F, "b": UF, "c": UF}))
    held.instance.waits_for_past = True

    assert explain_task(held).change == (remedy.Clear("d", "r0", ("a",)),)


def test_without_a_known_previous_run_there_is_no_change() -> None:
    held = task_facts(PATIENT, NONE, run={"run_before": None}, previous=PreviousRun(None))
    held.instance.waits_for_past = True

    assert explain_task(held).change == ()


def test_a_task_waits_for_its_next_try() -> None:
    failed = msgspec.structs.replace(ATTEMPT, state="failed", reason="no disk", ended_at=NOW)
    held = task_facts(graph("a*1"), TaskState.UP_FOR_RETRY, attempt=failed)
    held.instance.next_try_at, held.instance.try_number, held.instance.max_tries = LATER, 1, 2

    page = explain_task(held)

    (gate,) = page.closed
    assert (gate.name, gate.reason, gate.since) == ("next try", reasons.NextTry(LATER), NOW)
    assert gate.facts == {"tries": 1, "of": 2, "reason": "no disk"}
    assert page.change == (remedy.Wait(LATER),)


def mapped(*elements: TaskState) -> TaskFacts:
    """A mapped task with instances in these states."""
    dag = graph("a", task("b < a", over="a"))
    held = task_facts(dag, S, NONE)
    held.instance.elements = held.instance.awaited = len(elements)
    held.instance.success = elements.count(S)
    born = {element_index(1, number): Instance(element_index(1, number), state) for number, state in enumerate(elements)}
    undone = [index for index, instance in born.items() if instance.state not in TASK_ENDED]
    return msgspec.structs.replace(held, instances={**held.instances, **born}, undone=undone)


def test_a_mapped_task_waits_for_its_instances() -> None:
    page = explain_task(mapped(S, SCHEDULED, RUNNING))

    assert closed(page) == {"upstream": reasons.InstancesNotDone(2, 3)}
    assert page.change == (remedy.EndUpstream("d", "r1", ("b[1]", "b[2]")),)


def test_an_instance_of_a_mapped_task_has_no_upstream_of_its_own() -> None:
    around = mapped(NONE)
    element = msgspec.structs.replace(around, instance=around.instances[element_index(1, 0)])

    page = explain_task(element)

    assert (page.task, closed(page)) == ("b[0]", {})
    assert next(gate.facts for gate in page.gates if gate.name == "upstream") == {}


@pytest.mark.parametrize(
    ("state", "change"),
    [
        (TaskState.SKIPPED, ()),
        (TaskState.UPSTREAM_FAILED, ()),
        (TaskState.REMOVED, ()),
        (F, (remedy.Clear("d", "r1", ("b[0]",)),)),
    ],
)
def test_an_instance_that_ended_is_cleared_alone(state: TaskState, change: object) -> None:
    around = mapped(state)

    page = explain_task(msgspec.structs.replace(around, instance=around.instances[element_index(1, 0)]))

    assert (page.task, page.change) == ("b[0]", change)


def test_an_instance_that_ended_with_its_run_says_so() -> None:
    around = mapped(TaskState.SKIPPED)
    row = TaskRow("default_pool", None, NOW, "cancelled by anna")

    page = explain_task(msgspec.structs.replace(around, instance=around.instances[element_index(1, 0)], row=row))

    assert closed(page) == {"trigger rule": reasons.EndedApart(TaskState.SKIPPED, "cancelled by anna")}
    assert page.change == (remedy.Clear("d", "r1", ("b[0]",)),)


def test_gates_after_a_closed_one_are_not_reached() -> None:
    page = explain_task(task_facts(graph("a", "b < a"), RUNNING, NONE))

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


def test_every_reason_is_one_of_a_gate() -> None:
    """But AwaitsTick, which the gate of the timetable stands for. mypy sees to it that each has a remedy."""
    every = set(reasons.Reason.__subclasses__())

    assert {*get_args(reasons.DagReason), *get_args(reasons.TaskReason)} == every - {reasons.AwaitsTick}


@pytest.mark.parametrize("reason", [reason for reason, _ in TEXTS if isinstance(reason, reasons.TaskReason)])
def test_a_gate_of_a_task_that_is_closed_for_any_reason_is_explained(reason: reasons.TaskReason) -> None:
    gate: Gate[reasons.TaskReason] = Gate(name="any", state=GateState.CLOSED, reason=reason)

    assert isinstance(task_changes(task_facts(graph("a", "b < a"), RUNNING, NONE), [gate]), tuple)


def test_a_task_that_waits_for_no_slots_gets_no_larger_pool() -> None:
    gate = Gate(name="pool", state=GateState.CLOSED, reason=reasons.PoolMissing("p"))

    assert task_changes(task_facts(graph("a"), NONE), [gate]) == ()


def test_the_state_of_a_task_of_a_run_that_has_not_started_is_none() -> None:
    assert (explain_task(queued()).state, explain_task(task_facts(graph("a"), NONE)).state) == (None, NONE)


def test_the_submission_gate_shows_an_abandoned_attempt() -> None:
    lost = msgspec.structs.replace(ATTEMPT, state="submitting", has_owner=False, kill_reason="cleared", ahead=3)

    gates = {gate.name: gate for gate in explain_task(task_facts(graph("a"), QUEUED, attempt=lost)).gates}

    assert gates["submission"].facts == {
        "state": "submitting",
        "host": "h",
        "before_it": 3,
        "daemon": "gone",
        "to_be_killed": "cleared",
        "last_sign_of_life": NOW,
    }


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("a", 0),
        ("b", 1),
        ("b[2]", element_index(1, 2)),
        ("b[9999]", element_index(1, 9_999)),
        ("b[10000]", None),
        ("b[02]", None),
        ("b[x]", None),
        ("b[]", None),
        ("b[", None),
        ("b]", None),
        ("c", None),
    ],
)
def test_tasks_are_found_by_their_names(label: str, expected: int | None) -> None:
    """A mapped task has at most 10,000 instances."""
    assert index_of(graph("a", task("b < a", over="a")), label) == expected


def test_a_task_of_a_run_that_has_not_started_is_in_state_none() -> None:
    assert queued().state_of(0) is NONE


@pytest.mark.parametrize(
    ("around", "there"),
    [
        (queued(), True),
        (task_facts(graph("a"), NONE), True),
        (task_facts(graph("a"), NONE, row=None), False),
        (msgspec.structs.replace(queued(), instance=Instance(element_index(0, 1))), False),
    ],
)
def test_a_run_has_a_task_once_it_has_started_or_its_version_has(around: TaskFacts, there: bool) -> None:
    assert around.is_in_run is there
