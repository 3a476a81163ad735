"""`kill -9` of the daemon at each point of a submission: exactly one application runs per attempt, as it tells itself."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import anyio
import pytest

from tests.acceptance.pipeline import TASKS
from tests.acceptance.stage import Attempt, Servers, Stage, Story, open_stage

KILLED, STOPPED = -9, 0
ONCE = Story(deaths=[KILLED, STOPPED], runs=["success"], attempts=[Attempt(1, "succeeded", executions=1, rows=1)])


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


@pytest.mark.parametrize("point", ["before_intent", "after_intent", "before_submit", "after_submit", "before_record"])
async def test_one_application_runs_when_the_daemon_is_killed(servers: Servers, tmp_path: Path, point: str) -> None:
    async def play(stage: Stage) -> Story:
        await stage.start(die_at=point)
        await stage.give("succeed")
        await stage.death()
        await stage.start()
        await stage.until_working()
        await stage.go()
        return await stage.story()

    stories = await on_each_backend(servers, tmp_path, play)

    assert stories == dict.fromkeys(TASKS, ONCE)


@pytest.mark.parametrize("ends", ["while no daemon runs", "under the next daemon"])
async def test_a_running_application_does_not_feel_that_the_daemon_is_killed(servers: Servers, tmp_path: Path, ends: str) -> None:
    async def play(stage: Stage) -> Story:
        await stage.start()
        await stage.give("succeed")
        await stage.until_working()
        stage.kill()
        await stage.death()
        if ends == "under the next daemon":
            await stage.start()
            await stage.until_seen()
        await stage.go()
        if ends == "while no daemon runs":
            await stage.until_nothing_runs()
            await stage.start()
        return await stage.story()

    stories = await on_each_backend(servers, tmp_path, play)

    assert stories == dict.fromkeys(TASKS, ONCE)


async def test_one_application_runs_per_attempt_when_a_daemon_is_killed_over_each(servers: Servers, tmp_path: Path) -> None:
    async def play(stage: Stage) -> Story:
        await stage.start(die_at="after_submit")
        await stage.give("fail_once")
        await stage.death()
        await stage.start(die_at="after_submit")
        await stage.until_working()
        await stage.go()
        await stage.death()
        await stage.start()
        await stage.until_working(try_number=2)
        await stage.go()
        return await stage.story()

    stories = await on_each_backend(servers, tmp_path, play)

    attempts = [Attempt(1, "failed", executions=1, rows=0), Attempt(2, "succeeded", executions=1, rows=1)]
    assert stories == dict.fromkeys(TASKS, Story(deaths=[KILLED, KILLED, STOPPED], runs=["success"], attempts=attempts))


async def test_an_application_that_runs_twice_is_seen(servers: Servers, tmp_path: Path) -> None:
    """What all of this rests on: were a successor blind for what was submitted before it, the application would tell."""
    async with open_stage(servers, tmp_path, "command") as stage:
        await stage.start(die_at="after_submit")
        await stage.give("succeed")
        await stage.death()
        await stage.start(spool_dir=tmp_path / "elsewhere")
        await stage.until_working(executions=2)
        attempts = await stage.attempts()

    assert attempts == [Attempt(1, "accepted", executions=2, rows=0)]
