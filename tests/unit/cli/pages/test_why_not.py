"""Explained gates and their remedies in text and JSON."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tidegate.daemon.cli.pages.why_not import print_task
from tidegate.daemon.read_model.why_not import task_in_words
from tidegate.schemas.explain import reasons, remedy
from tidegate.schemas.explain.gates import Gate, GateState, TaskExplanation
from tidegate.schemas.state import TaskState

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


PAGE = TaskExplanation(
    dag_id="d",
    run_id="r",
    task="a",
    state=TaskState.SCHEDULED,
    gates=(
        Gate(name="timing", state=GateState.OPEN, facts={"run_after": NOON}),
        Gate(
            name="pause",
            state=GateState.CLOSED,
            reason=reasons.DagPaused(),
            since=NOON - timedelta(minutes=5),
            facts={"paused": True},
        ),
        Gate(name="pool", state=GateState.NOT_REACHED, facts={"by": ("e x t", "e y t"), "needed": 1}),
    ),
    change=(remedy.Unpause("d"),),
)


def test_gates_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_task(task_in_words(PAGE), NOON)

    assert capsys.readouterr().out == (
        "d r a\n"
        "  state      scheduled\n"
        "  waits for  the DAG to be unpaused (pause)\n"
        "\n"
        "gates\n"
        "GATE    STATE        FOR    WHAT IS KNOWN\n"
        "timing  open         -      run after 2026-11-21 12:00:00Z\n"
        "pause   closed       5m00s  paused yes\n"
        "pool    not reached  -      by e x t, e y t; needed 1\n"
        "\n"
        "the smallest change that lets it run\n"
        "  unpause the DAG\n"
        "    tidegate dags unpause d\n"
    )


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (TaskState.RUNNING, "nothing: it is running"),
        (TaskState.SUCCESS, "nothing: it has succeeded"),
        (TaskState.SCHEDULED, "the next decision of a daemon"),
    ],
)
def test_a_task_without_closed_gates_says_so(state: TaskState, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_task(task_in_words(msgspec.structs.replace(PAGE, state=state, gates=PAGE.gates[:1], change=())), NOON)

    out = capsys.readouterr().out
    assert f"  waits for  {text}\n" in out
    assert "change" not in out


def test_closed_gates_without_a_change_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_task(task_in_words(msgspec.structs.replace(PAGE, change=())), NOON)

    assert capsys.readouterr().out.endswith("\nno change lets it run any more\n")


def test_json_has_the_texts_too() -> None:
    page = msgspec.to_builtins(task_in_words(PAGE))

    assert [gate["waits_for"] for gate in page["gates"]] == [None, "the DAG to be unpaused", None]
    assert page["gates"][0]["known"] == "run after 2026-11-21 12:00:00Z"
    assert page["change"] == [
        {"kind": "unpause", "dag_id": "d", "says": "unpause the DAG", "commands": ("tidegate dags unpause d",)}
    ]
