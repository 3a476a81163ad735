"""What the gates of a task show: their state, since when, and the facts."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, graph, task
from tests.unit.handlers.explain.test_task import HELD, INTENT, KNOWING_NONE, MAPPED, OF_CLUSTER, ONE_DAEMON_AWAY, ROOM
from tests.unit.handlers.explain.test_task_facts import mapped
from tests.unit.handlers.gates import gate_of, opened, shut, unreached
from tests.unit.handlers.task_facts import (
    ATTEMPT,
    BEFORE,
    LATER,
    NONE,
    QUEUED,
    RUNNING,
    SCHEDULED,
    UF,
    F,
    K,
    S,
    closed,
    queued,
    task_facts,
)
from tidegate.handlers.explain.task import explain_task
from tidegate.handlers.explain.task_facts import TaskFacts
from tidegate.schemas.dag import TriggerRule
from tidegate.schemas.explain import reasons
from tidegate.schemas.explain.facts import TaskRow
from tidegate.schemas.explain.gates import Gate, GateState
from tidegate.schemas.graph import element_index
from tidegate.schemas.queries.leases import Terms
from tidegate.schemas.state import RunState, RunType, TaskState
from tidegate.schemas.view import Instance, PreviousRun

CREATED, STARTED, ENDED = NOW - timedelta(hours=3), NOW - timedelta(hours=2), NOW - timedelta(hours=1)
TIMES: dict[str, Any] = {"created_at": CREATED, "start_date": STARTED}
OF_BACKFILL: dict[str, Any] = {"backfill": ROOM, "backfill_id": 3}
RULE = TriggerRule.ALL_SUCCESS
TWO = graph("a", "b < a")
PATIENT = graph("a", task("b < a", depends_on_past=True))


def ended(state: RunState, **facts: Any) -> TaskFacts:
    """A task that its run has left behind."""
    return task_facts(graph("a"), NONE, run={**TIMES, "state": state, "end_date": ENDED, **facts})


RUN_GATES = [
    (queued(), opened("condition", BEFORE, made=RunType.MANUAL, version=3)),
    (
        queued(run={**TIMES, "run_type": RunType.DATASET, "events": 2, "logical_date": ENDED}),
        opened("condition", CREATED, made=RunType.DATASET, events=2, logical_date=ENDED, version=3),
    ),
    (queued(), opened("timing", run_after=NOW)),
    (queued(run={"run_after": LATER}), shut("timing", reasons.NotYetDue(LATER), run_after=LATER)),
    (queued(run=HELD), shut("hold", reasons.DagHeld("why"), BEFORE, file="d.py")),
    (queued(), opened("run limit", running=1, max_active_runs=2, runs=("r1",))),
    (
        queued(run={**OF_BACKFILL, "running_runs": 1, "backfill": ROOM._replace(max_active_runs=7)}),
        opened("run limit", running=1, max_active_runs=7, runs=("r1",)),
    ),
    (queued(run=OF_BACKFILL), opened("backfill", backfill=3, state="running")),
    (queued(), opened("queued runs")),
    (queued(run={"runs_ahead": 3}), shut("queued runs", reasons.RunsAhead(3), queued=3)),
    (queued(run={"created_at": CREATED}), unreached("run state", CREATED, state="queued")),
    (task_facts(graph("a"), NONE, run=TIMES), opened("run state", STARTED, state="running")),
    (
        task_facts(graph("a"), S, run={**TIMES, "state": RunState.SUCCESS, "end_date": ENDED}),
        opened("run state", ENDED, state="success"),
    ),
    (
        ended(RunState.FAILED, reason="deadlock"),
        shut("run state", reasons.RunEnded(RunState.FAILED, "deadlock"), ENDED, state="failed"),
    ),
    (ended(RunState.SUCCESS), shut("run state", reasons.RunEnded(RunState.SUCCESS, ""), ENDED, state="success")),
]


@pytest.mark.parametrize(("around", "expected"), RUN_GATES)
def test_a_gate_of_a_run_has_its_facts(around: TaskFacts, expected: Gate[Any]) -> None:
    assert gate_of(explain_task(around), expected.name) == expected


def after_past(around: TaskFacts, **states: TaskState) -> TaskFacts:
    """A task that waits for these tasks of the previous run."""
    around.instance.waits_for_past = True
    return msgspec.structs.replace(around, previous=PreviousRun(states))


def tried(around: TaskFacts, tries: int = 1, of: int = 2) -> TaskFacts:
    around.instance.try_number, around.instance.max_tries, around.instance.next_try_at = tries, of, LATER
    return around


ENDED_ATTEMPT = msgspec.structs.replace(ATTEMPT, state="failed", reason="no disk", ended_at=ENDED)
SILENT = msgspec.structs.replace(ENDED_ATTEMPT, reason="")
AT_END = TaskRow("default_pool", BEFORE, ENDED)
WAITS_FOR_PAST = reasons.PreviousRunNotDone("r0")

READINESS_GATES = [
    (queued(), unreached("upstream", tasks=("a",))),
    (task_facts(graph("a"), NONE), opened("upstream")),
    (task_facts(graph("a", "b", "c", "d < a b c"), S, S, S, NONE), opened("upstream", ended="3 of 3")),
    (
        task_facts(graph("a", "b", "c", "d < a b c"), S, RUNNING, NONE, NONE),
        shut("upstream", reasons.UpstreamNotDone(("b", "c")), ended="1 of 3", not_ended=("b running", "c none")),
    ),
    (task_facts(TWO, RUNNING, RUNNING), opened("upstream", ended="0 of 1", not_ended=("a running",))),
    (task_facts(MAPPED, S, NONE), opened("upstream", ended="1 of 1")),
    (mapped(S, SCHEDULED, RUNNING), shut("upstream", reasons.InstancesNotDone(2, 3), ended="1 of 1", instances=3)),
    (queued(), unreached("trigger rule", rule=RULE)),
    (task_facts(TWO, S, NONE), opened("trigger rule", rule=RULE, success=1)),
    (
        task_facts(graph("a", "b", "c", "d", "e", "f < a b c d e"), F, F, K, UF, S, UF, row=AT_END),
        shut("trigger rule", reasons.RuledOut(RULE, UF), ENDED, rule=RULE, success=1, failed=2, skipped=1, upstream_failed=1),
    ),
    (task_facts(TWO, F, UF, row=None), shut("trigger rule", reasons.RuledOut(RULE, UF), rule=RULE, failed=1)),
    (task_facts(TWO, S, S, row=AT_END), opened("trigger rule", rule=RULE, success=1)),
    (task_facts(PATIENT, RUNNING, NONE, previous=PreviousRun({"b": F})), unreached("previous run", run="r0", tasks=("b",))),
    (after_past(task_facts(PATIENT, S, NONE), b=F), shut("previous run", WAITS_FOR_PAST, run="r0", tasks=("b",))),
    (task_facts(PATIENT, S, NONE, previous=PreviousRun({"b": S})), opened("previous run", run="r0")),
    (task_facts(PATIENT, S, SCHEDULED, previous=PreviousRun({"b": F})), opened("previous run", run="r0")),
    (task_facts(PATIENT, run={"state": RunState.QUEUED}), unreached("previous run", run="r0")),
    (task_facts(graph("a"), NONE), unreached("next try", tries=0, of=1)),
    (task_facts(graph("a"), K), unreached("next try", tries=0, of=1)),
    (task_facts(graph("a"), SCHEDULED), opened("next try", tries=0, of=1)),
    (queued(), unreached("next try", tries=0, of=1)),
    (tried(task_facts(graph("a"), RUNNING, attempt=ATTEMPT)), opened("next try", tries=1, of=2)),
    (
        tried(task_facts(graph("a"), TaskState.UP_FOR_RETRY, attempt=ENDED_ATTEMPT)),
        shut("next try", reasons.NextTry(LATER), ENDED, tries=1, of=2, reason="no disk"),
    ),
    (
        tried(task_facts(graph("a"), TaskState.UP_FOR_RETRY, attempt=SILENT)),
        shut("next try", reasons.NextTry(LATER), ENDED, tries=1, of=2),
    ),
    (tried(task_facts(graph("a"), TaskState.UP_FOR_RETRY)), shut("next try", reasons.NextTry(LATER), tries=1, of=2)),
    (
        tried(task_facts(graph("a"), F, attempt=ENDED_ATTEMPT), tries=2),
        shut("next try", reasons.TaskEnded(F, 2, "no disk"), ENDED, tries=2, of=2),
    ),
]


@pytest.mark.parametrize(("around", "expected"), READINESS_GATES)
def test_a_gate_before_admission_has_its_facts(around: TaskFacts, expected: Gate[Any]) -> None:
    assert gate_of(explain_task(around), expected.name) == expected


@pytest.mark.parametrize(
    ("around", "reached"),
    [
        (task_facts(graph("a"), NONE), False),
        (tried(task_facts(graph("a"), NONE)), False),
        (task_facts(graph("a"), SCHEDULED), False),
        (task_facts(graph("a"), QUEUED), True),
        (tried(task_facts(graph("a"), RUNNING)), True),
        (tried(task_facts(graph("a"), S)), True),
        (task_facts(graph("a"), S), False),
        (tried(task_facts(graph("a"), F), tries=2), True),
        (tried(task_facts(graph("a"), K)), False),
    ],
)
def test_the_gates_of_admission_are_reached_by_what_waits_for_slots_or_had_them(around: TaskFacts, reached: bool) -> None:
    """A user marks a task that had no attempt; one that had some is cleared."""
    page = explain_task(around)

    pool, limit = gate_of(page, "pool"), gate_of(page, "max_active_tasks")
    if reached:
        expected = opened("pool", BEFORE, pool="default_pool", needed=1), opened("max_active_tasks", limit=16)
    else:
        expected = unreached("pool", pool="default_pool", needed=1), unreached("max_active_tasks", limit=16)
    assert (pool, limit) == expected
    assert gate_of(page, "priority").state is pool.state


def test_an_instance_outside_the_dates_of_its_mapped_task_is_not_ruled_out() -> None:
    around = task_facts(MAPPED, S, NONE)

    assert closed(explain_task(msgspec.structs.replace(around, instance=Instance(element_index(1, 0), TaskState.REMOVED)))) == {}


SUBMISSION = {"state": "accepted", "host": "h", "last_sign_of_life": NOW}
NEW = msgspec.structs.replace(INTENT, created_at=CREATED, submitted_at=None, started_at=None)

KNOWING_NIGHTLY = msgspec.structs.replace(KNOWING_NONE, host="b", terms=Terms(clusters={"spark-submit": ("nightly",)}))
SUBMISSION_GATES = [
    (task_facts(graph("a"), NONE), unreached("submission")),
    (task_facts(graph("a"), SCHEDULED, attempt=ATTEMPT), unreached("submission")),
    (task_facts(graph("a"), S), unreached("submission")),
    (
        task_facts(graph("a"), RUNNING, attempt=msgspec.structs.replace(ATTEMPT, started_at=STARTED)),
        opened("submission", STARTED, **SUBMISSION),
    ),
    (
        task_facts(graph("a"), QUEUED, attempt=msgspec.structs.replace(ATTEMPT, started_at=None, submitted_at=STARTED)),
        opened("submission", STARTED, **SUBMISSION),
    ),
    (
        task_facts(graph("a"), QUEUED, attempt=NEW),
        shut("submission", reasons.NotSubmitted("command", "intent"), CREATED, **{**SUBMISSION, "state": "intent"}),
    ),
    (
        task_facts(graph("a"), RUNNING, attempt=msgspec.structs.replace(ATTEMPT, has_owner=False)),
        opened("submission", BEFORE, **SUBMISSION),
    ),
    (task_facts(graph("a"), NONE), unreached("backend")),
    (task_facts(graph("a"), SCHEDULED, attempt=ATTEMPT), unreached("backend", backend="command")),
    (task_facts(graph("a"), RUNNING, attempt=ATTEMPT), opened("backend", backend="command")),
    (
        task_facts(graph("a"), QUEUED, attempt=INTENT, daemons=[ONE_DAEMON_AWAY]),
        shut("backend", reasons.ServerUnreachable("the runners", BEFORE, "no space"), BEFORE, backend="command"),
    ),
    (
        task_facts(graph("a"), QUEUED, attempt=OF_CLUSTER, daemons=[KNOWING_NONE]),
        shut("cluster", reasons.ClusterUnknown("nightly", "master", ("h",)), cluster="nightly"),
    ),
    (
        task_facts(graph("a"), QUEUED, attempt=OF_CLUSTER, daemons=[KNOWING_NIGHTLY, KNOWING_NONE]),
        opened("cluster", cluster="nightly", known_on=("b",)),
    ),
    (task_facts(graph("a"), SCHEDULED, attempt=OF_CLUSTER, daemons=[KNOWING_NONE]), unreached("cluster", cluster="nightly")),
    (task_facts(graph("a"), NONE), opened("daemons", alive=1, daemons=("h (pid 7)",))),
]


@pytest.mark.parametrize(("around", "expected"), SUBMISSION_GATES)
def test_a_gate_of_the_submission_has_its_facts(around: TaskFacts, expected: Gate[Any]) -> None:
    assert gate_of(explain_task(around), expected.name) == expected


def test_a_submission_of_a_daemon_that_is_alive_is_not_abandoned() -> None:
    begun = msgspec.structs.replace(ATTEMPT, state="submitting")

    assert "daemon" not in gate_of(explain_task(task_facts(graph("a"), QUEUED, attempt=begun)), "submission").facts


def test_an_attempt_that_a_backend_has_is_not_held() -> None:
    page = explain_task(task_facts(graph("a"), QUEUED, run=HELD, attempt=ATTEMPT))

    assert (closed(page), gate_of(page, "submission").state) == ({}, GateState.OPEN)


def test_an_explanation_names_its_task() -> None:
    page = explain_task(task_facts(TWO, S, NONE))

    assert (page.dag_id, page.run_id, page.task) == ("d", "r1", "b")
