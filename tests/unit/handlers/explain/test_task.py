"""The gates of a task instance and the changes that open them, gate by gate."""

from datetime import timedelta

import msgspec
import pytest

from tests.shapes import NOW, graph, task
from tests.unit.handlers.task_facts import (
    ATTEMPT,
    BEFORE,
    DAEMON,
    LATER,
    NONE,
    QUEUED,
    RUNNING,
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
from tidegate.schemas.backfill import BackfillCapacity
from tidegate.schemas.dag import TriggerRule
from tidegate.schemas.explain import reasons, remedy
from tidegate.schemas.explain.facts import InactiveDag, OccupyingTask, TaskRow
from tidegate.schemas.queries.leases import Away, Terms
from tidegate.schemas.queries.row_holders import HeldRow, RowHolder
from tidegate.schemas.state import BackfillState, RunState, TaskState
from tidegate.schemas.timetable.spec import Continuous

ROOM = BackfillCapacity(3, BackfillState.RUNNING, 2, 5, 1, None, 0)
ONE_AFTER_ANOTHER = graph("a", limit=1, timetable=Continuous())
OTHER = OccupyingTask("e", "x", "t", 1, BEFORE)
MINE = OccupyingTask("d", "r1", "b", 1, BEFORE)


MAPPED = graph("a", task("b < a", over="a"))
WITH_TEARDOWN = graph(task("a", is_setup=True), "c < a", task("b < a c", teardown_of=("a",)))


def ended(reason: str) -> TaskRow:
    return TaskRow("default_pool", None, NOW, reason)


HELD_ROW = HeldRow("run r", RowHolder(42, "ada", "psql", "", NOW, NOW, ("dag_run",), ()))
INTENT = msgspec.structs.replace(ATTEMPT, state="intent")
UNSUBMITTED = msgspec.structs.replace(INTENT, started_at=None, submitted_at=None)
HELD = {"held_since": BEFORE, "hold_reason": "why"}
CLEAR = remedy.Clear("d", "r1", ("b",))
OF_CLUSTER = msgspec.structs.replace(ATTEMPT, backend="spark-submit", state="intent", cluster="nightly")
KNOWING_NONE = msgspec.structs.replace(DAEMON, terms=Terms(clusters={"spark-submit": (), "spark-connect": ("nightly",)}))
KNOWING_OTHERS = msgspec.structs.replace(DAEMON, host="other", terms=Terms(clusters={"spark-submit": ("weekly",)}))
ONE_DAEMON_AWAY = msgspec.structs.replace(
    DAEMON,
    away={
        "the runners": Away(BEFORE, "no space"),
        "Kafka": Away(BEFORE, "gone"),
        "Kafka partition t/1": Away(BEFORE, "no leader"),
    },
)
WITHOUT_SPOOL = msgspec.structs.replace(
    DAEMON,
    away={
        "duty sweep prune": Away(BEFORE - timedelta(hours=1), "failed"),
        "the runners": Away(NOW, "no space"),
        "the spool": Away(BEFORE, "full"),
    },
)


GATES = [
    pytest.param(queued(), {}, (), id="a run that is about to start"),
    pytest.param(queued(run={"run_after": LATER}), {"timing": reasons.NotYetDue(LATER)}, (remedy.Wait(LATER),), id="timing"),
    pytest.param(queued(run={"is_paused": True}), {"pause": reasons.DagPaused()}, (remedy.Unpause("d"),), id="pause of a run"),
    pytest.param(
        task_facts(graph("a"), NONE, run={"is_paused": True}), {"pause": reasons.DagPaused()}, (remedy.Unpause("d"),), id="pause"
    ),
    pytest.param(queued(run=HELD), {"hold": reasons.DagHeld("why")}, (remedy.Release("d", "d.py"),), id="hold of a run"),
    pytest.param(
        task_facts(graph("a"), NONE, run=HELD), {"hold": reasons.DagHeld("why")}, (remedy.Release("d", "d.py"),), id="hold"
    ),
    pytest.param(task_facts(graph("a"), RUNNING, run=HELD, attempt=ATTEMPT), {}, (), id="hold of what runs"),
    pytest.param(task_facts(graph("a"), RUNNING, run={"is_paused": True}, attempt=ATTEMPT), {}, (), id="pause of what runs"),
    pytest.param(queued(run={"is_stale": True}), {"DAG file": reasons.DagStale()}, (remedy.RestoreFile("d", "d.py"),), id="file"),
    pytest.param(task_facts(graph("a"), NONE, run={"is_stale": True}), {}, (), id="a run that has started needs no file"),
    pytest.param(
        queued(run={"running_runs": 2, "running": ["r0", "r9"]}),
        {"run limit": reasons.MaxActiveRuns(2)},
        (remedy.RaiseRuns("d", "d.py", 3, ("r0", "r9")),),
        id="run limit",
    ),
    pytest.param(
        queued(run={"running_runs": 2, "runs_ahead": 3}),
        {"run limit": reasons.MaxActiveRuns(2), "queued runs": reasons.RunsAhead(3)},
        (remedy.RaiseRuns("d", "d.py", 6, ("r1",)),),
        id="run limit and runs before it",
    ),
    pytest.param(
        queued(run={"running_runs": 2, "backfill": ROOM, "backfill_id": 3}),
        {"run limit": reasons.BackfillLimit(3, "max_active_runs", 2)},
        (remedy.SetBackfill(3, "max_active_runs", 3),),
        id="run limit of a backfill",
    ),
    pytest.param(
        queued(run={"running_runs": 2, "runs_ahead": 3, "backfill": ROOM, "backfill_id": 3}),
        {"run limit": reasons.BackfillLimit(3, "max_active_runs", 2), "queued runs": reasons.RunsAhead(3)},
        (remedy.SetBackfill(3, "max_active_runs", 6),),
        id="runs of the backfill before it",
    ),
    pytest.param(
        queued(run={"running_runs": 0, "runs_ahead": 1, "backfill": ROOM, "backfill_id": 3}),
        {"queued runs": reasons.RunsAhead(1)},
        (),
        id="runs of the backfill that are about to start",
    ),
    *(
        pytest.param(
            queued(run={"running_runs": 0, "backfill": ROOM, "backfill_id": 3, "inactive": InactiveDag("o", state, "o.py")}),
            {"backfill": reasons.BackfillInactive(3, "o", state, "o.py")},
            (change,),
            id=f"another DAG of the backfill is {state}",
        )
        for state, change in (
            ("paused", remedy.Unpause("o")),
            ("stale", remedy.RestoreFile("o", "o.py")),
            ("held", remedy.Release("o", "o.py")),
        )
    ),
    pytest.param(
        queued(run={"running_runs": 1, "backfill": ROOM._replace(state=BackfillState.PAUSED), "backfill_id": 3}),
        {"backfill": reasons.BackfillPaused(3)},
        (remedy.ResumeBackfill(3),),
        id="pause of a backfill",
    ),
    pytest.param(
        queued(newest_graph=ONE_AFTER_ANOTHER),
        {"run limit": reasons.MaxActiveRuns(1)},
        (remedy.EndRun("d", ("r1",)),),
        id="run limit of a DAG whose runs follow each other",
    ),
    pytest.param(
        queued(newest_graph=ONE_AFTER_ANOTHER, run={"running_runs": 0, "runs_ahead": 1, "running": []}),
        {"queued runs": reasons.RunsAhead(1)},
        (),
        id="runs before it in a DAG whose runs follow each other",
    ),
    pytest.param(
        queued(run={"running_runs": 0, "runs_ahead": 1}), {"queued runs": reasons.RunsAhead(1)}, (), id="runs about to start"
    ),
    pytest.param(
        task_facts(graph("a"), NONE, run={"state": RunState.FAILED, "reason": "deadlock", "end_date": NOW}),
        {"run state": reasons.RunEnded(RunState.FAILED, "deadlock")},
        (remedy.Clear("d", "r1", ("a",)),),
        id="run state",
    ),
    pytest.param(
        task_facts(graph("a", "b < a", "c", "d < b c"), RUNNING, NONE, S, NONE),
        {"upstream": reasons.UpstreamNotDone(("b",))},
        (remedy.EndUpstream("d", "r1", ("a",)),),
        id="upstream",
    ),
    pytest.param(task_facts(graph("a", "b:one_success < a"), S, NONE), {}, (), id="its turn"),
    pytest.param(task_facts(graph("a", "b < a"), RUNNING, RUNNING), {}, (), id="it runs again, and so does what is before it"),
    pytest.param(
        task_facts(graph("a", "b < a"), F, UF),
        {"trigger rule": reasons.RuledOut(TriggerRule.ALL_SUCCESS, UF)},
        (remedy.Clear("d", "r1", ("a",)),),
        id="trigger rule",
    ),
    pytest.param(
        task_facts(graph("a", "c < a", "b < c"), F, UF, UF),
        {"trigger rule": reasons.RuledOut(TriggerRule.ALL_SUCCESS, UF)},
        (remedy.Clear("d", "r1", ("a",)),),
        id="trigger rule, further up",
    ),
    pytest.param(
        task_facts(graph("a", "b", "c < a", "d < b", "e < c d"), F, F, UF, UF, UF),
        {"trigger rule": reasons.RuledOut(TriggerRule.ALL_SUCCESS, UF)},
        (remedy.Clear("d", "r1", ("a", "b")),),
        id="trigger rule, two chains",
    ),
    pytest.param(
        task_facts(graph("a", "b", "c < a b"), F, K, UF),
        {"trigger rule": reasons.RuledOut(TriggerRule.ALL_SUCCESS, UF)},
        (remedy.Clear("d", "r1", ("a",)),),
        id="trigger rule, of which only the failure is the cause",
    ),
    pytest.param(
        task_facts(WITH_TEARDOWN, S, F, K, row=ended("cancelled")),
        {"trigger rule": reasons.EndedApart(K, "cancelled")},
        (CLEAR,),
        id="a teardown whose setup has run",
    ),
    pytest.param(
        task_facts(graph("a", "b < a"), K, K),
        {"trigger rule": reasons.RuledOut(TriggerRule.ALL_SUCCESS, K)},
        (remedy.Clear("d", "r1", ("a",)),),
        id="skipped like what is before it",
    ),
    pytest.param(
        task_facts(graph("a", "b < a"), S, K),
        {"trigger rule": reasons.RuledOut(TriggerRule.ALL_SUCCESS, K)},
        (CLEAR,),
        id="a branch",
    ),
    pytest.param(
        task_facts(graph("a", "b:all_failed < a"), S, K),
        {"trigger rule": reasons.RuledOut(TriggerRule.ALL_FAILED, K)},
        (),
        id="nothing can help a rule that waits for failures",
    ),
    pytest.param(
        task_facts(graph("a", "b < a"), F, K, row=ended("cancelled by anna")),
        {"trigger rule": reasons.EndedApart(K, "cancelled by anna")},
        (remedy.Clear("d", "r1", ("a",)),),
        id="its run was cancelled",
    ),
    pytest.param(
        task_facts(graph("a", "c < a", "b < c"), F, K, K, row=ended("cancelled by anna")),
        {"trigger rule": reasons.EndedApart(K, "cancelled by anna")},
        (remedy.Clear("d", "r1", ("a",)),),
        id="its run was cancelled, further up",
    ),
    pytest.param(
        task_facts(graph("a", "b < a"), S, K, row=ended("a did not choose it")),
        {"trigger rule": reasons.EndedApart(K, "a did not choose it")},
        (CLEAR,),
        id="a branch with a reason",
    ),
    pytest.param(
        task_facts(MAPPED, S, K, row=ended("a returned nothing to map over")),
        {"trigger rule": reasons.EndedApart(K, "a returned nothing to map over")},
        (remedy.Clear("d", "r1", ("a",)),),
        id="an empty list",
    ),
    pytest.param(
        task_facts(MAPPED, S, F, row=ended("a returned no list to map over")),
        {"next try": reasons.TaskEnded(F, 0, "a returned no list to map over")},
        (remedy.Clear("d", "r1", ("a",)),),
        id="no list",
    ),
    pytest.param(
        task_facts(graph("a"), F, row=ended("marked by anna"), attempt=msgspec.structs.replace(ATTEMPT, reason="x")),
        {"next try": reasons.TaskEnded(F, 0, "marked by anna")},
        (remedy.Clear("d", "r1", ("a",)),),
        id="marked by a user after an attempt",
    ),
    pytest.param(
        task_facts(MAPPED, S, NONE, run={"state": RunState.FAILED, "reason": "deadlock", "end_date": NOW}),
        {"run state": reasons.RunEnded(RunState.FAILED, "deadlock")},
        (CLEAR,),
        id="the run of a mapped task ended before it",
    ),
    pytest.param(
        task_facts(graph("a"), TaskState.REMOVED),
        {"trigger rule": reasons.OutsideDates()},
        (),
        id="no part of the run",
    ),
    pytest.param(
        task_facts(graph("a"), F, attempt=msgspec.structs.replace(ATTEMPT, state="failed", reason="x")),
        {"next try": reasons.TaskEnded(F, 0, "x")},
        (remedy.Clear("d", "r1", ("a",)),),
        id="failed for good",
    ),
    pytest.param(
        task_facts(graph("a"), F),
        {"next try": reasons.TaskEnded(F, 0, "")},
        (remedy.Clear("d", "r1", ("a",)),),
        id="marked as failed",
    ),
    pytest.param(
        task_facts(graph("a"), QUEUED, attempt=UNSUBMITTED),
        {"submission": reasons.NotSubmitted("command", "intent")},
        (remedy.Wait(None),),
        id="submission",
    ),
    pytest.param(
        task_facts(graph("a"), QUEUED, attempt=INTENT, daemons=[ONE_DAEMON_AWAY] * 2),
        {
            "submission": reasons.NotSubmitted("command", "intent"),
            "backend": reasons.ServerUnreachable("the runners", BEFORE, "no space"),
        },
        (remedy.RestoreServer("the runners"),),
        id="backend",
    ),
    pytest.param(
        task_facts(graph("a"), QUEUED, attempt=INTENT, daemons=[WITHOUT_SPOOL]),
        {
            "submission": reasons.NotSubmitted("command", "intent"),
            "backend": reasons.ServerUnreachable("the spool", BEFORE, "full"),
        },
        (remedy.RestoreServer("the spool"),),
        id="of several outages the one that keeps tasks from starting, and of these the first",
    ),
    pytest.param(
        task_facts(graph("a"), QUEUED, run=HELD, attempt=INTENT),
        {"hold": reasons.DagHeld("why"), "submission": reasons.NotSubmitted("command", "intent")},
        (remedy.Release("d", "d.py"),),
        id="hold of an attempt that no backend has",
    ),
    pytest.param(
        task_facts(graph("a"), QUEUED, attempt=INTENT, daemons=[ONE_DAEMON_AWAY, DAEMON]),
        {"submission": reasons.NotSubmitted("command", "intent")},
        (remedy.Wait(None),),
        id="another daemon reaches the backend",
    ),
    pytest.param(
        task_facts(graph("a"), QUEUED, attempt=OF_CLUSTER, daemons=[KNOWING_NONE, KNOWING_OTHERS]),
        {
            "submission": reasons.NotSubmitted("spark-submit", "intent"),
            "cluster": reasons.ClusterUnknown("nightly", "master", ("h", "other")),
        },
        (remedy.AddCluster("nightly", "master", ("h", "other")),),
        id="no host knows the cluster",
    ),
    pytest.param(
        task_facts(graph("a"), QUEUED, attempt=OF_CLUSTER, daemons=[KNOWING_NONE, DAEMON]),
        {"submission": reasons.NotSubmitted("spark-submit", "intent")},
        (remedy.Wait(None),),
        id="a daemon of a former version claims tasks of every cluster",
    ),
    pytest.param(
        task_facts(graph("a"), QUEUED, attempt=OF_CLUSTER, daemons=[]),
        {"submission": reasons.NotSubmitted("spark-submit", "intent"), "daemons": reasons.NoDaemon()},
        (remedy.StartDaemon(),),
        id="no daemon, whatever the cluster",
    ),
    pytest.param(
        task_facts(graph("a"), RUNNING, attempt=msgspec.structs.replace(OF_CLUSTER, state="accepted"), daemons=[KNOWING_NONE]),
        {},
        (),
        id="it runs on a cluster that its host has forgotten",
    ),
    pytest.param(task_facts(graph("a"), RUNNING, attempt=ATTEMPT, daemons=[ONE_DAEMON_AWAY]), {}, (), id="it runs all the same"),
    pytest.param(
        task_facts(graph("a"), QUEUED, attempt=INTENT, daemons=[]),
        {"submission": reasons.NotSubmitted("command", "intent"), "daemons": reasons.NoDaemon()},
        (remedy.StartDaemon(),),
        id="daemons",
    ),
    pytest.param(task_facts(graph("a"), S, attempt=ATTEMPT, daemons=[], held_row=HELD_ROW), {}, (), id="it has run"),
    pytest.param(
        task_facts(graph("a"), QUEUED, attempt=INTENT, held_row=HELD_ROW),
        {
            "submission": reasons.NotSubmitted("command", "intent"),
            "lock": reasons.RowLocked("run r", HELD_ROW.holder.text, 42),
        },
        (remedy.Wait(None), remedy.EndTransaction(42)),
        id="another session holds a row",
    ),
]


@pytest.mark.parametrize(("around", "gates", "change"), GATES)
def test_a_closed_gate_has_a_reason_and_a_change_that_opens_it(
    around: TaskFacts, gates: dict[str, object], change: tuple[remedy.Change, ...]
) -> None:
    page = explain_task(around)

    assert (closed(page), page.change) == (gates, change)
