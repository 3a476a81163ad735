"""A record whose decision fails costs nothing else: its event is kept, and only the DAG or the file at fault is set aside."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.integration.ingest.intake import Intake, Sent
from tidegate.handlers import dataset_updated, task_finished
from tidegate.schemas.effect import Effect
from tidegate.schemas.wire.event import Kind

GOOD = [Sent(b'{"uri": "lake://good%d"}' % number) for number in range(5)]
BAD = Sent(b'{"uri": "lake://bad"}')


async def test_an_event_whose_decision_fails_is_recorded_and_its_neighbours_are_handled(
    intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = dataset_updated.decide

    def fails(messages: Sequence[Any], state: Any) -> Iterator[Effect]:
        if any(message.body.uri == "lake://bad" for message in messages):
            raise KeyError("surprise")
        return decide(messages, state)

    monkeypatch.setattr(dataset_updated, "decide", fails)

    await intake.take(Kind.DATASET_UPDATED, *GOOD[:2], BAD, *GOOD[2:])

    assert await intake.uris() == ["lake://good0", "lake://good1", "lake://bad", "lake://good2", "lake://good3", "lake://good4"]
    assert await intake.letters() == []


async def test_an_event_that_cannot_even_be_recorded_is_a_dead_letter(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Iterator[Effect]:
        raise KeyError("surprise")

    monkeypatch.setattr(task_finished, "load", fails)
    finish = Sent(b'{"submission_id": "00000000-0000-0000-0000-000000000001", "outcome": "succeeded"}')

    await intake.take(Kind.TASK_FINISHED, finish, finish)

    letters = await intake.letters()
    assert [letter["reason"] for letter in letters] == ["unprocessable"] * 2
    assert "surprise" in letters[0]["message"]
