"""Asking why a task does not run, or a DAG has no new run, and doing what is said to help."""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.cli.history import History
from tidegate.daemon.postgres.server_clock import ServerClock

if TYPE_CHECKING:
    from tests.integration.cli.conftest import Cli

ONE = (
    'from datetime import timedelta\nfrom tidegate import Dag\nwith Dag("d", {dag}) as dag: dag.command("a", ["true"], {task})\n'
)

DAG = """
from datetime import UTC, datetime, timedelta
from tidegate import *
a, b = (Dataset(uri) for uri in ("s://a", "s://b"))
with Dag("d", {dag}) as dag: dag.command("t", ["true"])
"""


def one(dag: str = "", task: str = "") -> str:
    """A DAG `d` with one task `a`."""
    return ONE.format(dag=dag, task=task)


class Wait:
    """Waiting in no time: the server's clock goes forward, as commands and the daemon's part of a test know it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def until(self, moment: datetime) -> None:
        ahead = moment - datetime.now(UTC) + timedelta(seconds=1)
        extrapolated, told = ServerClock.extrapolated, ServerClock.told
        self._patch.setattr(ServerClock, "extrapolated", lambda clock: extrapolated(clock) + ahead)
        self._patch.setattr(ServerClock, "told", lambda clock, sample: told(clock, sample) + ahead)


class WhyNot:
    """What `tasks why-not` says of a task of DAG `d`, and doing what it says."""

    def __init__(self, cli: "Cli", history: History, wait: Wait) -> None:
        self.cli = cli
        self.history = history
        self.wait = wait

    async def run(self, run_id: str = "r", *options: str) -> None:
        answer = await self.cli("runs", "trigger", "d", "--run-id", run_id, *options)
        assert answer.code == 0, answer.err

    async def why(self, task: str = "a", run_id: str = "r", *rest: str) -> Mapping[str, Any]:
        return await _page(self.cli, "tasks", "why-not", "d", run_id, task, *rest)

    async def closed(self, task: str = "a", run_id: str = "r") -> Mapping[str, Any]:
        """The closed gates by name."""
        return {gate["name"]: gate for gate in (await self.why(task, run_id))["gates"] if gate["state"] == "closed"}

    async def obey(self, task: str = "a", run_id: str = "r", *, first: bool = False) -> None:
        """Call the commands that are said to help, or only the first one."""
        commands = [command for change in (await self.why(task, run_id))["change"] for command in change["commands"]]
        assert commands
        for command in commands[:1] if first else commands:
            program, *args = shlex.split(command)
            answer = await self.cli(*args)
            assert (program, answer.code) == ("tidegate", 0), answer.err
        await self.history.clock("d")
        await self.history.reconsidered()

    async def state(self, task: str = "a", run_id: str = "r") -> str | None:
        state: str | None = (await self.why(task, run_id))["state"]
        return state

    async def change(self, task: str = "a", run_id: str = "r") -> dict[str, Any]:
        """The one change that is said to help, without its words."""
        return _one_change(await self.why(task, run_id))


class WhyNoRun:
    """What `dags why-not` says of DAG `d`, and how many runs it has."""

    def __init__(self, cli: "Cli", history: History, wait: Wait) -> None:
        self.cli = cli
        self.history = history
        self.wait = wait

    async def file(self, dag: str) -> None:
        await self.history.file(DAG.format(dag=dag))

    async def why(self) -> Mapping[str, Any]:
        return await _page(self.cli, "dags", "why-not", "d")

    async def closed(self) -> Mapping[str, Any]:
        """What closes each closed gate."""
        return {gate["name"]: gate["reason"] for gate in (await self.why())["gates"] if gate["state"] == "closed"}

    async def change(self) -> dict[str, Any]:
        """The one change that is said to help, without its words."""
        return _one_change(await self.why())

    async def runs(self) -> int:
        return len((await self.cli("runs", "list", "d", "--json")).json)

    async def wait_until(self, moment: str) -> None:
        self.wait.until(datetime.fromisoformat(moment))
        await self.history.clock("d")


async def _page(cli: "Cli", *command: str) -> Mapping[str, Any]:
    answer = await cli(*command, "--json")
    assert answer.code == 0, answer.err
    return dict(answer.json)


def _one_change(page: Mapping[str, Any]) -> dict[str, Any]:
    (change,) = page["change"]
    return {name: value for name, value in change.items() if name not in ("says", "commands")}
