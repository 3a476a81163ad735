"""Each reason in words."""

from datetime import UTC, datetime

import pytest

from tidegate.schemas.dag import TriggerRule
from tidegate.schemas.explain import reasons
from tidegate.schemas.explain.reasons import Reason
from tidegate.schemas.state import RunState, TaskState

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
RULE = TriggerRule.ALL_SUCCESS

TEXTS: list[tuple[Reason, str]] = [
    (reasons.UpstreamNotDone(("a", "b")), "a, b"),
    (reasons.InstancesNotDone(2, 5), "its instances: 2 of 5 have not ended"),
    (reasons.PreviousRunNotDone("r0"), "the previous run, r0"),
    (reasons.PreviousRunNotDone(None), "the previous run, unknown"),
    (reasons.DagHeld("no row"), "the DAG to be released from its hold: no row"),
    (reasons.NextTry(NOON), "its next try at 2026-11-21 12:00:00Z"),
    (reasons.RuledOut(RULE, TaskState.UPSTREAM_FAILED), "a clear: it is upstream_failed by trigger rule all_success"),
    (reasons.EndedApart(TaskState.SKIPPED, "cancelled by anna"), "a clear: it is skipped: cancelled by anna"),
    (reasons.OutsideDates(), "a run whose logical date is within its dates: it is not part of this run"),
    (reasons.TaskEnded(TaskState.FAILED, 2, "no disk"), "a clear: it failed at try 2: no disk"),
    (reasons.TaskEnded(TaskState.FAILED, 2, ""), "a clear: it failed at try 2: unknown"),
    (reasons.RunEnded(RunState.FAILED, "deadlock"), "a clear: its run ended as failed: deadlock"),
    (reasons.PoolMissing("p"), "pool 'p', which does not exist"),
    (reasons.PoolTooSmall("p", 2, 3), "pool 'p' to become larger: it has 2 slots, the task needs 3"),
    (reasons.PoolFull("p", 9, 1, 2), "pool 'p': 1 of its 9 slots are open, the task needs 2"),
    (reasons.LowerPriority("p", 1), "pool 'p': its open slots go to tasks ahead of it, 1 now"),
    (reasons.MaxActiveTasks(16), "other tasks of the run: max_active_tasks is 16"),
    (reasons.MaxActiveTisPerDag(1), "other instances of it in the DAG: max_active_tis_per_dag is 1"),
    (reasons.MaxActiveTisPerDagrun(1), "other instances of it in the run: max_active_tis_per_dagrun is 1"),
    (reasons.Parallelism(32), "other tasks of the installation: parallelism is 32"),
    (reasons.AttemptOpen(), "the end of an attempt that was open when a user changed the state of the task"),
    (
        reasons.ClusterUnknown("nightly", "master", ("h1", "h2")),
        "a host that knows the master of cluster 'nightly': it is not in TIDEGATE_SPARK_CLUSTERS of h1, h2",
    ),
    (reasons.NotSubmitted("command", "intent"), "backend 'command' to accept the attempt: its state is intent"),
    (reasons.DagPaused(), "the DAG to be unpaused"),
    (reasons.DagStale(), "the DAG to be in a DAG file again"),
    (reasons.BackfillLimit(3, "max_active_runs", 2), "the rest of backfill 3: its max_active_runs is 2"),
    (
        reasons.BackfillInactive(3, "a", "paused", "a.py"),
        "backfill 3, which starts no runs: its DAG a is paused",
    ),
    (reasons.BackfillPaused(3), "backfill 3 to be resumed"),
    (reasons.MaxActiveRuns(1), "other runs of the DAG: max_active_runs is 1"),
    (reasons.RunsAhead(2), "queued runs ahead of it: 2"),
    (reasons.NotYetDue(NOON), "its time: it may start at 2026-11-21 12:00:00Z"),
    (reasons.NoSchedule(), "a request for a run: neither datasets nor a timetable start one"),
    (reasons.TimetableExhausted(), "a tick of its timetable, which has no more"),
    (reasons.AwaitsTick(), "the next tick of its timetable"),
    (reasons.InputsMissing(("s://a", "s://b")), "its condition to hold: no event is pending of s://a, s://b"),
    (reasons.OutsideWindow(3600), "inputs that happened within 1h00m of each other"),
    (reasons.Debouncing(NOON), "quiet until 2026-11-21 12:00:00Z, longer if more events arrive"),
    (reasons.RateLimited(NOON), "the minimum interval between two runs to pass, at 2026-11-21 12:00:00Z"),
    (reasons.ConditionBroken("no end"), "a condition that can be evaluated: no end"),
    (reasons.NoDaemon(), "a daemon: none is alive"),
    (
        reasons.RowLocked("DAG d", "pid 42 (user ada)", 42),
        "the row of DAG d, which another session of Postgres holds: pid 42 (user ada)",
    ),
    (
        reasons.ServerUnreachable("the runners", NOON, "no space"),
        "the runners, out of service since 2026-11-21 12:00:00Z: no space",
    ),
    (reasons.IntakeHalted(("t/3", "t/4")), "halted partitions to be resumed: t/3, t/4"),
]


@pytest.mark.parametrize(("reason", "expected"), TEXTS)
def test_a_reason_says_what_is_waited_for(reason: Reason, expected: str) -> None:
    assert reason.text == expected


def test_every_reason_has_words_and_a_kind_of_its_own() -> None:
    every = Reason.__subclasses__()

    assert {type(reason) for reason, _ in TEXTS} == set(every)
    assert len({reason.__struct_config__.tag for reason in every}) == len(every)
