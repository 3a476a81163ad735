"""A record whose decision fails costs nothing else: its event is kept, and only the DAG or the file at fault is set aside."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.integration.ingest.intake import Intake, Sent
from tidegate.daemon.context import Context
from tidegate.daemon.engine import Applied, Batch
from tidegate.daemon.intake import ingest
from tidegate.daemon.outage import Backoff
from tidegate.handlers import dataset_updated, task_finished
from tidegate.schemas.effect import Effect
from tidegate.schemas.error import TooSlowError, UnavailableError
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


async def test_the_pauses_of_ingest_grow_until_records_are_committed(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [UnavailableError("no space is left", server="Postgres")] * 4
    pauses: list[int] = []
    apply = Context.apply

    class Recorded(Backoff):
        failures = 0

        async def pause(self) -> None:
            pauses.append(self.failures)
            self.failures += 1

        def reset(self) -> None:
            self.failures = 0

    async def fails_first(context: Context, batch: Batch) -> Applied:
        if failures:
            raise failures.pop()
        return await apply(context, batch)

    monkeypatch.setattr(ingest, "Backoff", Recorded)
    monkeypatch.setattr(Context, "apply", fails_first)

    await intake.take(Kind.DATASET_UPDATED, GOOD[0])

    assert pauses == [0, 1, 2, 3]
    assert await intake.uris() == ["lake://good0"]


async def test_batches_of_ingest_are_smaller_after_one_that_was_too_slow(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    apply = Context.apply

    async def slow(context: Context, batch: Batch) -> Applied:
        sizes.append(len(batch.messages))
        if len(batch.messages) > 2:
            raise TooSlowError("canceling statement due to statement timeout", server="Postgres")
        return await apply(context, batch)

    monkeypatch.setattr(Context, "apply", slow)
    monkeypatch.setattr(ingest, "FAST_S", 0.0)

    await intake.take(Kind.DATASET_UPDATED, *GOOD)
    await intake.take(Kind.DATASET_UPDATED, *GOOD)

    assert sizes[0] > 2
    assert await intake.uris() == [f"lake://good{number}" for number in range(5)] * 2


def test_a_full_batch_that_is_fast_is_followed_by_a_larger_one() -> None:
    size = ingest.BatchSize(1000)
    changes: list[Callable[[], None]] = [
        lambda: size.shrink(1000),
        lambda: size.shrink(250),
        lambda: size.grow(100, 0.1),
        lambda: size.grow(125, 2.0),
        lambda: size.grow(125, 0.1),
        lambda: size.grow(900, 0.1),
        lambda: size.grow(900, 0.1),
        lambda: size.grow(1000, 0.1),
        lambda: size.shrink(1),
    ]
    seen = []
    for change in changes:
        change()
        seen.append(size.records)

    assert seen == [500, 125, 125, 125, 250, 500, 1000, 1000, 1]
