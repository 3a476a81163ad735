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
