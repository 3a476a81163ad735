"""`kill -9` of the daemon at each point of a submission: exactly one application runs per attempt, as it tells itself."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import pytest

from tests.acceptance.conftest import ONCE, on_each_backend
from tests.acceptance.crash_scenario import Attempt, CrashScenario, Servers, Story, open_scenario
from tests.acceptance.pipeline import TASKS

LONG = bool(os.environ.get("TEST_LONG"))

POINTS = ("after_submit", "before_intent", "after_intent", "before_submit", "before_record", "before_confirm")

TOGETHER = [(point,) for point in POINTS] if LONG else [POINTS]
"""The points that are tried at once, each in a scenario of its own."""

SOME = tuple(TASKS) if LONG else ("command",)
"""Backends differ at the first point alone: there `test_running_applications.py` and `test_contract.py` try the others."""


async def tried(servers: Servers, home: Path, point: str) -> Mapping[str, Story]:
    async def play(scenario: CrashScenario) -> Story:
        await scenario.start(die_at=point)
        await scenario.give("succeed")
        await scenario.death()
        await scenario.start()
        await scenario.until_working()
        await scenario.go()
        return await scenario.story()

    home.mkdir()
    return await on_each_backend(servers, home, play, SOME)


@pytest.mark.long
@pytest.mark.parametrize("points", TOGETHER, ids=" ".join)
async def test_one_application_runs_when_the_daemon_is_killed(servers: Servers, tmp_path: Path, points: Sequence[str]) -> None:
    stories: dict[str, Mapping[str, Story]] = {}

    async def one(point: str) -> None:
        stories[point] = await tried(servers, tmp_path / point, point)

    async with anyio.create_task_group() as tg:
        for point in points:
            tg.start_soon(one, point)

    assert stories == {point: dict.fromkeys(SOME, ONCE) for point in points}


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
