"""From which event on is read what waits for a DAG."""

from datetime import UTC, datetime, timedelta

from tidegate.schemas.queries import floors
from tidegate.schemas.queries.floors import KEPT, Floors, Seen

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SOON = NOON + timedelta(seconds=1)


def risen(at: int = 7, history_in: int = 0) -> Floors:
    found = Floors()
    found.settle(10)
    found.rise({"d": Seen(history_in, NOON, at)})
    return found


def test_of_a_dag_that_nobody_saw_everything_is_read() -> None:
    assert risen().of("other", 0, SOON) == 0


def test_what_was_seen_of_a_dag_holds_for_it() -> None:
    assert risen().of("d", 0, SOON) == 7


def test_recorded_events_that_were_queued_since_may_be_older() -> None:
    assert risen().of("d", 1, SOON) == 0


def test_what_another_saw_before_that_does_not_count() -> None:
    found = risen(at=9, history_in=1)
    found.rise({"d": Seen(0, SOON, 8)})

    assert found.of("d", 1, SOON) == 0


def test_everything_is_read_again_now_and_then_however_much_happens() -> None:
    found = risen()
    found.rise({"d": Seen(0, SOON, 9)})

    assert (found.of("d", 0, NOON + KEPT - timedelta(seconds=1)), found.of("d", 0, NOON + KEPT)) == (9, 0)


def test_who_took_over_may_know_less() -> None:
    found = risen()
    found.settle(9)

    assert found.of("d", 0, SOON) == 0


def test_what_is_settled_rises_without_harm() -> None:
    found = risen()
    found.settle(20)

    assert found.of("d", 0, SOON) == 7


def test_the_oldest_of_too_many_are_forgotten() -> None:
    found = Floors()
    found.rise({f"d{number}": Seen(0, NOON, 5) for number in range(floors.MOST + 1)})

    assert (found.of("d0", 0, SOON), found.of("d1", 0, SOON)) == (0, 5)
