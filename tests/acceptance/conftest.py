"""The command as it is installed, as a process of its own; and a DAG of one task on each backend."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path

import anyio
import pytest

from tests.acceptance.command import TIDEGATE, Ended, Tidegate, environment, run
from tests.acceptance.crash_scenario import Attempt, CrashScenario, Servers, Story, open_scenario
from tests.acceptance.pipeline import TASKS
from tests.acceptance.running_daemon import Start, starter
from tests.servers import MakeSettings

KILLED, STOPPED = -9, 0
ONCE = Story(deaths=[KILLED, STOPPED], runs=["success"], attempts=[Attempt(1, "succeeded", executions=1, rows=1)])


@pytest.fixture
def tidegate(tmp_path: Path) -> Tidegate:
    """Call the command in an empty folder, with no settings but those given."""

    async def call(*args: str, **settings: str) -> Ended:
        given = {f"TIDEGATE_{name.upper()}": value for name, value in settings.items()}
        return await run(TIDEGATE, *args, env=environment() | given, cwd=tmp_path)

    return call


@pytest.fixture
def start(settings: MakeSettings, tidegate: Tidegate, tmp_path: Path) -> Start:
    return starter(settings, tidegate, tmp_path)


@pytest.fixture
def servers(postgres: str, template: str, broker: str, spark_connect: str) -> Servers:
    return Servers(postgres, template, broker, spark_connect)


async def on_each_backend(
    servers: Servers, home: Path, play: Callable[[CrashScenario], Awaitable[Story]], backends: Collection[str] = tuple(TASKS)
) -> Mapping[str, Story]:
    """The same on several backends at once, each in a scenario of its own: most of it is waiting."""
    stories: dict[str, Story] = {}

    async def one(backend: str) -> None:
        async with open_scenario(servers, home, backend) as scenario:
            stories[backend] = await play(scenario)

    async with anyio.create_task_group() as tg:
        for backend in backends:
            tg.start_soon(one, backend)
    return stories
