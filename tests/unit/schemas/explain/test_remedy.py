"""Each change that opens a gate, in words and as commands."""

from datetime import UTC, datetime

import pytest

from tidegate.schemas.explain import remedy

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

CHANGES: list[tuple[remedy.Change, tuple[str, tuple[str, ...]]]] = [
    (remedy.ResumeBackfill(3), ("resume backfill 3", ("tidegate backfills resume 3",))),
    (
        remedy.SetBackfill(3, "max_active_runs", 5),
        (
            "raise max_active_runs of backfill 3 to 5, or wait for its other tasks to end",
            ("tidegate backfills set 3 --max-active-runs 5",),
        ),
    ),
    (remedy.Unpause("d"), ("unpause the DAG", ("tidegate dags unpause d",))),
    (
        remedy.Release("d", "d.py"),
        (
            "correct d.py, or release the DAG once the cause is gone; it is held again if the fault is still there",
            ("tidegate dags release d",),
        ),
    ),
    (
        remedy.CancelRuns("d", ("r0", "r1")),
        (
            "cancel r0 and r1, whose version is not the current one, if that is the fault; then release the DAG",
            ("tidegate runs cancel d r0", "tidegate runs cancel d r1", "tidegate dags release d"),
        ),
    ),
    (remedy.RestoreFile("d", "d.py"), ("put d into a DAG file again; it was in d.py", ())),
    (remedy.Wait(None), ("wait a moment", ())),
    (remedy.Wait(NOON), ("wait until 2026-11-21 12:00:00Z", ())),
    (remedy.RaiseRuns("d", "d.py", 3, ("r0", "r1")), ("raise max_active_runs to 3 in d.py, or let r0 or r1 end", ())),
    (remedy.RaiseRuns("d", "d.py", 3, ()), ("raise max_active_runs to 3 in d.py", ())),
    (remedy.SetSlots("p", 1), ("give pool 'p' 1 slot", ("tidegate pools set p 1",))),
    (remedy.SetSlots("p", 5, ("d r a",)), ("give pool 'p' 5 slots, or let d r a end", ("tidegate pools set p 5",))),
    (
        remedy.EndTasks("max_active_tasks", 1, (("d", "r", "a"), ("d", "r", "b[0]"))),
        (
            "let 1 of d r a, d r b[0] end, or end it; max_active_tasks is fixed for existing runs",
            ("tidegate tasks mark d r a success",),
        ),
    ),
    (remedy.SetParallelism(3), ("start the daemons with TIDEGATE_PARALLELISM=3, or let a task end", ())),
    (
        remedy.EndUpstream("d", "r", ("a", "b[1]")),
        (
            "let a, b[1] of r end; ask for each why it does not run",
            ("tidegate tasks why-not d r a", "tidegate tasks why-not d r 'b[1]'"),
        ),
    ),
    (remedy.Clear("d", "r", ("a", "b")), ("clear a, b of r", ("tidegate tasks clear d r a b --yes",))),
    (remedy.StartDaemon(), ("start a daemon", ("tidegate daemon",))),
    (
        remedy.AddCluster("nightly", "remote", ("h1", "h2")),
        (
            "add cluster 'nightly' with its remote to TIDEGATE_SPARK_CLUSTERS of h1 or h2, and restart its daemon",
            (),
        ),
    ),
    (
        remedy.EndTransaction(42),
        ("end the transaction of that session, or the session: SELECT pg_terminate_backend(42)", ()),
    ),
    (remedy.RestoreServer("the runners"), ("restore the runners, or the way to it", ())),
    (
        remedy.RestoreServer("duty dispatch"),
        ("report the cause, which the log of the daemon has as duty_failed; duty dispatch starts again by itself", ()),
    ),
    (
        remedy.Publish(("s://a", "s://b where n > 0"), ("s://a",)),
        ("publish an event of s://a and of s://b where n > 0", ("tidegate datasets publish s://a",)),
    ),
    (remedy.CorrectCondition("d.py"), ("correct the condition in d.py", ())),
    (
        remedy.Resume(("t/3",)),
        ("resume these partitions at an offset", ("tidegate topics resume t/3 --at earliest",)),
    ),
    (remedy.EndRun("d", ("r0", "r1")), ("let r0 or r1 end", ())),
    (remedy.Trigger("d"), ("trigger a run", ("tidegate runs trigger d",))),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_a_change_has_a_text_and_its_commands(change: remedy.Change, expected: tuple[str, tuple[str, ...]]) -> None:
    assert (change.text, change.commands) == expected


def test_every_change_has_a_text() -> None:
    assert {type(change) for change, _ in CHANGES} == set(remedy.Change.__subclasses__())
