"""The command as it is installed, as a process of its own; and a DAG of one task on each backend."""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from tests.acceptance.pipeline import TASKS
from tests.acceptance.stage import Attempt, Servers, Stage, Story, open_stage

TIDEGATE = str(Path(sys.executable).with_name("tidegate"))
WITHIN_S = 120.0

KILLED, STOPPED = -9, 0
ONCE = Story(deaths=[KILLED, STOPPED], runs=["success"], attempts=[Attempt(1, "succeeded", executions=1, rows=1)])


class Ended(NamedTuple):
    """A process that ended."""

    code: int
    out: str
    err: str


Tidegate = Callable[..., Awaitable[Ended]]


@pytest.fixture
def tidegate(tmp_path: Path) -> Tidegate:
    """Call the command in an empty folder, with no settings but those given."""

    async def call(*args: str, **settings: str) -> Ended:
        given = {f"TIDEGATE_{name.upper()}": value for name, value in settings.items()}
        return await run(TIDEGATE, *args, env=environment() | given, cwd=tmp_path)

    return call


async def run(*command: str, env: Mapping[str, str], cwd: Path) -> Ended:
    """Raises TimeoutError for one that does not end."""
    with anyio.fail_after(WITHIN_S):
        process = await anyio.run_process(command, env=env, cwd=cwd, check=False)
    return Ended(process.returncode, process.stdout.decode(), process.stderr.decode())


def environment() -> dict[str, str]:
    """Ours without any setting."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}


@pytest.fixture
def servers(postgres: str, template: str, broker: str, spark_connect: str) -> Servers:
    return Servers(postgres, template, broker, spark_connect)


async def on_each_backend(servers: Servers, home: Path, play: Callable[[Stage], Awaitable[Story]]) -> Mapping[str, Story]:
    """The same on all backends at once, each on a stage of its own: most of it is waiting."""
    stories: dict[str, Story] = {}

    async def one(backend: str) -> None:
        async with open_stage(servers, home, backend) as stage:
            stories[backend] = await play(stage)

    async with anyio.create_task_group() as tg:
        for backend in TASKS:
            tg.start_soon(one, backend)
    return stories
