"""Low watermarks of the pending queues of DAGs."""

from datetime import UTC, datetime, timedelta

from tidegate.schemas.queries.low_watermarks import MAX_DAGS, VALID_FOR, LowWatermarks, Observation

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SOON = NOON + timedelta(seconds=1)


def advanced(watermark: int = 7, backfilled_by_txn: int = 0) -> LowWatermarks:
    """Of DAG `d`, while everything below 10 is settled."""
    watermarks = LowWatermarks()
    watermarks.settle(10)
    watermarks.advance({"d": Observation(backfilled_by_txn, NOON, watermark)})
    return watermarks


def test_the_queue_of_an_unknown_dag_is_read_from_its_start() -> None:
    assert advanced().of("other", 0, SOON) == 0


def test_the_queue_of_an_observed_dag_is_read_from_its_low_watermark() -> None:
    assert advanced().of("d", 0, SOON) == 7


def test_a_backfill_invalidates_the_low_watermark() -> None:
    assert advanced().of("d", 1, SOON) == 0


def test_an_observation_from_before_a_backfill_does_not_count_after_it() -> None:
    watermarks = advanced(watermark=9, backfilled_by_txn=1)
    watermarks.advance({"d": Observation(0, SOON, 8)})

    assert watermarks.of("d", 1, SOON) == 0


def test_a_low_watermark_expires_even_if_it_is_observed_again() -> None:
    watermarks = advanced()
    watermarks.advance({"d": Observation(0, SOON, 9)})

    assert (watermarks.of("d", 0, NOON + VALID_FOR - timedelta(seconds=1)), watermarks.of("d", 0, NOON + VALID_FOR)) == (9, 0)


def test_a_server_that_took_over_with_fewer_events_invalidates_all_low_watermarks() -> None:
    watermarks = advanced()
    watermarks.settle(9)

    assert watermarks.of("d", 0, SOON) == 0


def test_settling_more_events_keeps_low_watermarks() -> None:
    watermarks = advanced()
    watermarks.settle(20)

    assert watermarks.of("d", 0, SOON) == 7


def test_the_oldest_low_watermarks_are_dropped_beyond_the_limit() -> None:
    watermarks = LowWatermarks()
    watermarks.advance({f"d{number}": Observation(0, NOON, 5) for number in range(MAX_DAGS + 1)})

    assert (watermarks.of("d0", 0, SOON), watermarks.of("d1", 0, SOON)) == (0, 5)
