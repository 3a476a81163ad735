"""Attempts whose process gives no sign of life: taken for dead once, and only those."""

from uuid import UUID

import pytest
from msgspec.structs import replace

from tests.integration.cli.history import HOST
from tests.integration.ingest.intake import Intake
from tidegate.daemon.duties.sweep import SilentAttempts
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import submissions

SILENCED = "UPDATE submission SET heartbeat_at = now() - interval '10 minutes' WHERE submission_id = $1 RETURNING 1"
AHEAD = "UPDATE submission SET heartbeat_at = now() + interval '1 hour' WHERE submission_id = $1 RETURNING 1"


async def test_a_silent_attempt_is_lost_and_tried_again_and_the_others_run_on(intake: Intake, attempts: list[UUID]) -> None:
    context = replace(intake.context, settings=replace(intake.settings, runner_silent_s=60))
    await intake.rows(SILENCED, attempts[0])
    sweep = SilentAttempts()

    for _ in range(3):
        await sweep.fail_silent_attempts(context)

    ends = await intake.rows("SELECT state, reason FROM submission ORDER BY task_index")
    tasks = await intake.rows("SELECT state FROM task_instance ORDER BY task_index")
    assert [(end["state"], end["reason"]) for end in ends] == [
        ("lost", f"host {HOST} is lost: no heartbeat for 60 s"),
        ("accepted", ""),
    ]
    assert [task["state"] for task in tasks] == ["scheduled", "running"]


async def test_a_sign_of_life_counts_by_how_old_it_is(intake: Intake, attempts: list[UUID]) -> None:
    """When it was is the word of a host whose clock may be wrong."""
    context = replace(intake.context, settings=replace(intake.settings, runner_silent_s=60))
    for submission_id in attempts:
        await intake.rows(SILENCED, submission_id)

    await intake.database.run(submissions.record_heartbeats, list(zip(attempts, (1.0, 90.0), strict=True)))
    sweep = SilentAttempts()
    for _ in range(2):
        await sweep.fail_silent_attempts(context)

    ends = await intake.rows("SELECT state FROM submission ORDER BY task_index")
    assert [end["state"] for end in ends] == ["accepted", "lost"]


async def test_an_attempt_whose_host_reports_after_an_outage_is_not_lost(intake: Intake, attempts: list[UUID]) -> None:
    """The sweep may come first, once Postgres is back: hosts have reported before it looks again."""
    context = replace(intake.context, settings=replace(intake.settings, runner_silent_s=60))
    sweep = SilentAttempts()
    for submission_id in attempts:
        await intake.rows(SILENCED, submission_id)

    await sweep.fail_silent_attempts(context)
    await intake.database.run(submissions.record_heartbeats, [(attempts[0], 0.0)])
    await intake.rows(AHEAD, attempts[1])
    await intake.database.run(submissions.record_heartbeats, [(attempts[1], 0.0)])
    await sweep.fail_silent_attempts(context)

    found = await intake.rows("SELECT state, (heartbeat_at <= clock_timestamp())::text AS is_past FROM submission")
    assert [(each["state"], each["is_past"]) for each in found] == [("accepted", "true")] * 2


async def test_looks_before_and_after_an_outage_are_not_in_a_row(
    intake: Intake, attempts: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = replace(intake.context, settings=replace(intake.settings, runner_silent_s=60))
    await intake.rows(SILENCED, attempts[0])
    sweep = SilentAttempts()

    async def away(*_: object) -> None:
        raise UnavailableError("away", server="Postgres")

    await sweep.fail_silent_attempts(context)
    with monkeypatch.context() as outage:
        outage.setattr(submissions, "silent", away)
        with pytest.raises(UnavailableError):
            await sweep.fail_silent_attempts(context)
    await sweep.fail_silent_attempts(context)

    ends = await intake.rows("SELECT state FROM submission ORDER BY task_index")
    assert [end["state"] for end in ends] == ["accepted"] * 2
