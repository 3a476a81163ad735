"""`kill -9` of the daemon while an application runs, or of each that submitted one: none notices, none runs twice."""

import os
from pathlib import Path

import pytest

from tests.acceptance.conftest import KILLED, ONCE, STOPPED, on_each_backend
from tests.acceptance.crash_scenario import Attempt, CrashScenario, Servers, Story
from tests.acceptance.pipeline import TASKS

LONG = bool(os.environ.get("TEST_LONG"))

SOME = tuple(TASKS) if LONG else ("command",)
OVER_EACH = tuple(TASKS) if LONG else ("spark-connect", "command")
"""`make test` kills daemons over each application on these in the last test, and on `command` in the others.

Of an application by `spark-submit`, whose two drivers take as long as all else, `test_contract.py` kills the daemon.
"""


@pytest.mark.long
@pytest.mark.parametrize("ends", ["while no daemon runs", "under the next daemon"])
async def test_a_running_application_does_not_feel_that_the_daemon_is_killed(servers: Servers, tmp_path: Path, ends: str) -> None:
    async def play(scenario: CrashScenario) -> Story:
        await scenario.start()
        await scenario.give("succeed")
        await scenario.until_working()
        scenario.kill()
        await scenario.death()
        if ends == "under the next daemon":
            await scenario.start()
            await scenario.until_seen()
        await scenario.go()
        if ends == "while no daemon runs":
            await scenario.until_nothing_runs()
            await scenario.start()
        return await scenario.story()

    stories = await on_each_backend(servers, tmp_path, play, SOME)

    assert stories == dict.fromkeys(SOME, ONCE)


@pytest.mark.long
async def test_one_application_runs_per_attempt_when_a_daemon_is_killed_over_each(servers: Servers, tmp_path: Path) -> None:
    async def play(scenario: CrashScenario) -> Story:
        await scenario.start(die_at="after_submit")
        await scenario.give("fail_once")
        await scenario.death()
        await scenario.start(die_at="after_submit")
        await scenario.until_working()
        await scenario.go()
        await scenario.death()
        await scenario.start()
        await scenario.until_working(try_number=2)
        await scenario.go()
        return await scenario.story()

    stories = await on_each_backend(servers, tmp_path, play, OVER_EACH)

    attempts = [Attempt(1, "failed", executions=1, rows=0), Attempt(2, "succeeded", executions=1, rows=1)]
    assert stories == dict.fromkeys(OVER_EACH, Story(deaths=[KILLED, KILLED, STOPPED], runs=["success"], attempts=attempts))
