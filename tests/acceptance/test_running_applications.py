"""`kill -9` of the daemon while an application runs, or of each that submitted one: none notices, none runs twice."""

from pathlib import Path

import pytest

from tests.acceptance.conftest import KILLED, ONCE, STOPPED, on_each_backend
from tests.acceptance.pipeline import TASKS
from tests.acceptance.stage import Attempt, Servers, Stage, Story


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
