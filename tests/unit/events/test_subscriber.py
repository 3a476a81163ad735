"""Deduplication and gaps of subscriptions, and their pauses in an outage."""

from collections.abc import Collection

import anyio
import pytest

from tests.integration.events.states import run, task
from tidegate.events import Kind, subscribe
from tidegate.events.subscriber import GapError, LastSeqs, Subscription
from tidegate.schemas.error import RequestError


def test_events_in_sequence_are_new() -> None:
    seen = LastSeqs()

    new = [seen.record(run(seq)) for seq in (1, 2, 3)]

    assert new == [True, True, True]


def test_a_repetition_is_not() -> None:
    seen = LastSeqs()

    new = [seen.record(run(seq)) for seq in (1, 2, 1, 2, 3, 3)]

    assert new == [True, True, False, False, True, False]


def test_each_run_counts_for_itself() -> None:
    seen = LastSeqs()

    new = [seen.record(run(1, run_id)) for run_id in ("a", "b", "a")]

    assert new == [True, True, False]


def test_tasks_count_apart_from_their_run() -> None:
    seen = LastSeqs()

    new = [seen.record(event) for event in (run(1), task(1), task(2), run(2))]

    assert new == [True] * 4


def test_a_run_may_be_met_in_the_middle() -> None:
    seen = LastSeqs()

    assert seen.record(run(7))


def test_a_missing_event_is_an_error_that_names_it() -> None:
    seen = LastSeqs()
    seen.record(run(1))

    with pytest.raises(GapError, match="run r of d: expected DagRunStateChanged 2, got 4") as caught:
        seen.record(run(4))

    assert (caught.value.event, caught.value.expected) == (run(4), 2)


def test_a_gap_is_raised_once() -> None:
    seen = LastSeqs()
    seen.record(run(1))
    with pytest.raises(GapError):
        seen.record(run(4))

    new = [seen.record(run(seq)) for seq in (4, 5)]

    assert new == [False, True]


def test_memory_is_bounded_by_forgetting_the_run_that_was_silent_longest() -> None:
    seen = LastSeqs(limit=2)
    for run_id in ("a", "b"):
        seen.record(run(1, run_id))
    seen.record(run(2, "a"))

    seen.record(run(1, "c"))

    assert [seen.record(run(1, run_id)) for run_id in ("a", "c", "b")] == [False, False, True]


async def test_an_outage_of_hours_ends_no_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(anyio, "sleep", sleep)
    subscription = Subscription({}, None, LastSeqs())
    for _ in range(2_000):
        await subscription.pause()

    assert max(pauses[:2]) <= 1.0
    assert 15.0 <= pauses[-1] <= 30.0


@pytest.mark.parametrize("kinds", [(), (Kind.TASK_STATE, Kind.DATASET_UPDATED), Kind.TASK_STATE])
async def test_only_kinds_of_states_can_be_followed(kinds: Collection[Kind]) -> None:
    with pytest.raises(RequestError, match="`kinds` has to be a collection of "):
        await anext(subscribe("127.0.0.1:1", kinds=kinds))
