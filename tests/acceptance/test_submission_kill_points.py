"""`kill -9` of the daemon at each point of a submission: exactly one application runs per attempt, as it tells itself."""

import os
from pathlib import Path

import pytest

from tests.acceptance.conftest import ONCE, on_each_backend
from tests.acceptance.crash_scenario import Attempt, CrashScenario, Servers, Story, open_scenario
from tests.acceptance.pipeline import TASKS

AT_THE_BACKEND = ("after_submit",)
"""The points at which backends differ: a request has reached them. At the others `make test` tries one, `make test-long` all."""


def backends_for(point: str) -> tuple[str, ...]:
    return tuple(TASKS) if point in AT_THE_BACKEND or os.environ.get("TEST_LONG") else ("command",)


@pytest.mark.long
@pytest.mark.parametrize(
    "point", ["before_intent", "after_intent", "before_submit", "after_submit", "before_record", "before_confirm"]
)
async def test_one_application_runs_when_the_daemon_is_killed(servers: Servers, tmp_path: Path, point: str) -> None:
    async def play(scenario: CrashScenario) -> Story:
        await scenario.start(die_at=point)
        await scenario.give("succeed")
        await scenario.death()
        await scenario.start()
        await scenario.until_working()
        await scenario.go()
        return await scenario.story()

    stories = await on_each_backend(servers, tmp_path, play, backends_for(point))

    assert stories == dict.fromkeys(backends_for(point), ONCE)


async def test_an_application_that_runs_twice_is_seen(servers: Servers, tmp_path: Path) -> None:
    """What all of this rests on: were a successor blind for what was recorded before it, the application would tell."""
    async with open_scenario(servers, tmp_path, "command") as scenario:
        await scenario.start()
        await scenario.give("succeed")
        await scenario.until_working()
        scenario.kill()
        await scenario.death()
        await scenario.forget()
        await scenario.start(spool_dir=tmp_path / "elsewhere")
        await scenario.until_working(executions=2)
        attempts = await scenario.attempts()

    assert attempts == [Attempt(1, "accepted", executions=2, rows=0)]
