"""Confirmation of clearing, and tasks that cannot be cleared."""

import os
import pty
import sys
from collections.abc import Callable, Iterator

import anyio
import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.failed_run import failed, states
from tests.integration.cli.history import History
from tidegate.daemon.cli.commands import clearing

Type = Callable[[str], None]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Type]:
    """A user at a terminal, who types."""
    here, there = pty.openpty()
    with os.fdopen(here, "w") as keyboard, os.fdopen(there) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)

        def type_(line: str) -> None:
            keyboard.write(line)
            keyboard.flush()

        yield type_


async def test_without_a_terminal_nothing_is_cleared_without_yes(cli: Cli, history: History) -> None:
    await failed(history, cli)
    before = await states(cli)

    answer = await cli("runs", "clear", "three", "a")

    assert answer.code == 2
    assert answer.rows[1] == ["a", "-", "failed", "first,", "second,", "third"]
    assert answer.err.startswith("tidegate: invalid value for --yes: no terminal to confirm on; add --yes to clear")
    assert await states(cli) == before


@pytest.mark.parametrize("given", ["y", "yes", "Y"])
async def test_a_user_at_a_terminal_is_asked(cli: Cli, history: History, terminal: Type, given: str) -> None:
    await failed(history, cli)
    terminal(f"{given}\n")

    answer = await cli("runs", "clear", "three", "a", "--only-failed")

    assert (answer.code, answer.err) == (0, "clear 2 tasks of 1 run? [y/N] ")
    assert await states(cli) == {"first": "success", "second": "none", "third": "none"}


@pytest.mark.parametrize("given", ["", "n", "maybe"])
async def test_any_other_answer_clears_nothing(cli: Cli, history: History, terminal: Type, given: str) -> None:
    await failed(history, cli)
    before = await states(cli)
    terminal(f"{given}\n")

    answer = await cli("tasks", "clear", "three", "a", "second")

    told = "nothing was changed: clear was not confirmed"
    assert (answer.code, answer.err) == (1, f"clear 2 tasks of 1 run? [y/N] tidegate: {told}\n")
    assert await states(cli) == before


@pytest.mark.parametrize("args", [(), ("a", "--since", "2013-01-01"), ("a", "--until", "2013-01-01")])
async def test_either_a_run_or_a_time_is_cleared(cli: Cli, history: History, args: tuple[str, ...]) -> None:
    answer = await cli("runs", "clear", "three", *args, "--yes")

    assert (answer.code, answer.out) == (2, "")
    assert "invalid value for RUN: give either a run, or options that select runs" in answer.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nope", "a"), "there is no DAG 'nope'; `tidegate dags list` shows all"),
        (("nope", "--since", "2013-01-01"), "there is no DAG 'nope'; `tidegate dags list` shows all"),
        (("three", "nope"), "DAG 'three' has no run 'nope'; `tidegate runs list three` shows all"),
        (("three", "--until", "2013-01-01"), "DAG 'three' has no run in that time"),
        (
            ("three", "a", "--task", "first", "--task", "nope"),
            "DAG 'three' has no task 'nope' in these runs; its tasks are first, second, third",
        ),
        (
            ("three", "a", "--task", "first", "--no-downstream", "--only-failed"),
            "these runs have no task to clear: none has started, or none has failed",
        ),
    ],
)
async def test_what_cannot_be_cleared_is_one_sentence(cli: Cli, history: History, args: tuple[str, ...], said: str) -> None:
    await failed(history, cli)

    answer = await cli("runs", "clear", *args, "--yes", "--json")

    assert answer == (1, "", f"tidegate: {said}\n")


async def test_a_run_that_starts_while_the_user_decides_is_not_cleared(
    cli: Cli, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start() -> None:
        await cli("runs", "trigger", "three", "--run-id", "b")
        await history.attempts_begin()

    await failed(history, cli)
    before = await states(cli)
    monkeypatch.setattr(clearing, "confirm", lambda *_: anyio.from_thread.run(start))

    answer = await cli("runs", "clear", "three", "--until", "2100-01-01")

    said = "the runs to clear changed since they were shown ('b' differs); show them again, and repeat"
    assert (answer.code, answer.err) == (1, f"tidegate: {said}\n")
    assert await states(cli) == before
    assert (await states(cli, run_id="b"))["first"] == "running"
