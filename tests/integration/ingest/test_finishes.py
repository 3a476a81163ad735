"""Ends of attempts that change nothing: none is lost without a word, and the ends around them count."""

from uuid import UUID, uuid4

import msgspec
import pytest

from tests.integration.cli.history import History
from tests.integration.ingest.intake import Intake, Sent
from tests.tokens import token_of
from tidegate.handlers.task_finished import NOT_ON_RECORD
from tidegate.schemas.wire.envelope import decode_state
from tidegate.schemas.wire.event import MAX_REASON_LENGTH, MAX_RECORD_BYTES, Kind, Rejection, TaskFinished, encode


def finished(submission_id: UUID, outcome: str = "succeeded", **facts: object) -> Sent:
    """As a runner writes it."""
    stamp = {"submission_id": submission_id, "token": token_of(submission_id)}
    event = msgspec.convert({**stamp, "outcome": outcome, **facts}, TaskFinished)
    return Sent(encode(event), [("ce_id", uuid4().hex.encode()), ("ce_source", b"runner")])


def forged(record: Sent, **changed: object) -> Sent:
    """The same event, with another body."""
    return record._replace(value=msgspec.json.encode({**msgspec.json.decode(record.value or b""), **changed}))


async def states(intake: Intake) -> dict[str, str]:
    return {row["task_id"]: row["state"] for row in await intake.rows("SELECT task_id, state FROM task_instance")}


async def ignored(intake: Intake) -> list[tuple[UUID, str, str]]:
    rows = await intake.rows("SELECT submission_id, outcome, reason FROM ignored_finish ORDER BY id")
    return [(row["submission_id"], row["outcome"], row["reason"]) for row in rows]


async def test_a_finish_of_an_attempt_of_another_installation_is_put_aside(intake: Intake, attempts: list[UUID]) -> None:
    stranger = uuid4()
    record = forged(finished(stranger), token=str(stranger))

    await intake.take(Kind.TASK_FINISHED, finished(attempts[0]), record, finished(attempts[1]))

    (letter,) = await intake.letters()
    assert (letter["offset"], letter["value"], letter["reason"]) == (1, record.value, Rejection.UNKNOWN_ATTEMPT)
    assert letter["message"] == f"no attempt has the submission id {stranger}"
    assert await states(intake) == {"first": "success", "second": "success"}


async def test_a_finish_that_came_before_the_database_lost_the_attempt_is_kept_for_its_run(
    intake: Intake, attempts: list[UUID]
) -> None:
    """It is no dead letter: its token shows that it is one of this installation. Without the run, nothing can need it."""
    (run,) = [int(row["id"]) for row in await intake.rows("SELECT id FROM dag_run")]
    lost, of_no_run = UUID(int=run << 80), UUID(int=(run + 1) << 80)

    await intake.take(Kind.TASK_FINISHED, finished(lost), finished(of_no_run))

    assert await intake.letters() == []
    assert [(id_, reason) for id_, _, reason in await ignored(intake)] == [(lost, NOT_ON_RECORD), (of_no_run, NOT_ON_RECORD)]
    assert [row["submission_id"] for row in await intake.rows("SELECT submission_id FROM restored_end")] == [lost]


async def test_an_end_without_the_token_is_put_aside_and_does_not_take_the_id_of_the_true_one(
    intake: Intake, attempts: list[UUID]
) -> None:
    true, other = map(finished, attempts)
    stolen = other._replace(headers=true.headers)

    guesses = [forged(true, **change) for change in ({"token": "", "outcome": "failed"}, {"token": "guess"})]
    await intake.take(Kind.TASK_FINISHED, *guesses, stolen, true)

    letters = await intake.letters()
    assert [(letter["offset"], letter["reason"]) for letter in letters] == [(0, "wrong_token"), (1, "wrong_token")]
    assert await states(intake) == {"first": "success", "second": "success"}
    assert await ignored(intake) == []


async def test_a_finish_of_an_attempt_that_had_ended_is_recorded_and_changes_nothing(
    intake: Intake, attempts: list[UUID]
) -> None:
    await intake.take(Kind.TASK_FINISHED, finished(attempts[0]))

    await intake.take(Kind.TASK_FINISHED, finished(attempts[0], "failed"), finished(attempts[1]))

    assert await ignored(intake) == [(attempts[0], "failed", "the attempt had already ended: succeeded")]
    assert await states(intake) == {"first": "success", "second": "success"}
    assert await intake.letters() == []


async def test_a_finish_of_a_superseded_attempt_is_recorded_and_the_later_one_goes_on(
    intake: Intake, history: History, attempts: list[UUID]
) -> None:
    await intake.take(Kind.TASK_FINISHED, finished(attempts[0], "failed"))
    (again,) = await history.attempts_begin()

    await intake.take(Kind.TASK_FINISHED, finished(attempts[0]), finished(attempts[1]))

    assert await ignored(intake) == [(attempts[0], "succeeded", "try 1 was superseded by try 2")]
    assert await states(intake) == {"first": "running", "second": "success"}
    await intake.take(Kind.TASK_FINISHED, finished(again.submission_id))
    assert await states(intake) == {"first": "success", "second": "success"}


async def test_a_finish_in_a_run_that_had_ended_is_recorded(intake: Intake, attempts: list[UUID]) -> None:
    await intake.take(Kind.TASK_FINISHED, *map(finished, attempts))

    await intake.take(Kind.TASK_FINISHED, finished(attempts[1], "killed"))

    assert await ignored(intake) == [(attempts[1], "killed", "the attempt had already ended: succeeded")]
    (run,) = await intake.rows("SELECT state, unfinished FROM dag_run")
    assert (run["state"], run["unfinished"]) == ("success", 0)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
async def test_a_finish_at_a_time_out_of_range_is_put_aside(intake: Intake, attempts: list[UUID], time: str) -> None:
    body = b'{"submission_id": "%s", "outcome": "succeeded", "started_at": "%s"}' % (str(attempts[0]).encode(), time.encode())

    await intake.take(Kind.TASK_FINISHED, Sent(body), finished(attempts[1]))

    (letter,) = await intake.letters()
    assert (letter["value"], letter["reason"]) == (body, Rejection.INVALID)
    assert await states(intake) == {"first": "running", "second": "success"}


@pytest.mark.parametrize("size", [900_000, MAX_RECORD_BYTES - 200])
async def test_a_reason_of_any_length_is_kept_in_part_and_published(intake: Intake, attempts: list[UUID], size: int) -> None:
    await intake.take(Kind.TASK_FINISHED, finished(attempts[1], "failed", reason="x" * size))

    kept = "x" * MAX_REASON_LENGTH
    assert kept in [row["reason"] for row in await intake.rows("SELECT reason FROM submission")]
    states = [decode_state(Kind.TASK_STATE, record.headers, record.value) for record in await intake.relay(Kind.TASK_STATE)]
    assert states[-1].reason == kept


async def test_a_reason_that_postgres_would_refuse_is_mended(intake: Intake, attempts: list[UUID]) -> None:
    """From a backend: nothing like it comes through Kafka."""
    reason = "few\0rows\ud800"
    end = TaskFinished(submission_id=attempts[1], token=token_of(attempts[1]), outcome="failed", reason=reason)
    await intake.context.submit_messages([end])

    assert "few rows?" in [row["reason"] for row in await intake.rows("SELECT reason FROM submission")]
