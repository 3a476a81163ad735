"""From where on the outbox is read."""

from tidegate.daemon.postgres.low_watermark import ADVANCE_EVERY_S, OutboxWatermark
from tidegate.schemas.queries.writers import Writers

BEGAN, LATER = "the 1st", "the 2nd"
HELD = {1: 5, 2: 5}


def seen(*looks: tuple[int, set[str]], oldest: int | None = None) -> int:
    """Where is read from after these looks at the writers, each followed by one for rows."""
    watermark = OutboxWatermark()
    for last, writers in looks:
        watermark.committed.advance(Writers(BEGAN, last, writers))
        watermark.lower_bound(HELD)
        watermark.advance(oldest)
    return watermark.lower_bound(HELD)


def test_it_rises_when_all_writers_have_ended() -> None:
    assert seen((10, {"a", "b"})) == 0
    assert seen((10, {"a", "b"}), (20, {"b", "c"})) == 0
    assert seen((10, {"a", "b"}), (20, {"b", "c"}), (30, {"c"})) == 10


def test_a_writer_that_began_later_holds_up_nothing_before() -> None:
    assert seen((10, {"a"}), (20, {"b"}), (30, {"c"})) == 20


def test_a_row_that_is_there_is_read_until_it_is_deleted() -> None:
    assert seen((10, set()), (20, set()), (30, set()), oldest=7) == 7
    assert seen((10, set()), (20, set()), (30, set()), oldest=27) == 20


def test_of_shards_that_are_new_nothing_has_been_seen() -> None:
    watermark = OutboxWatermark()
    for last in (10, 20):
        watermark.committed.advance(Writers(BEGAN, last, set()))
        watermark.advance(None)

    assert (watermark.lower_bound({1: 5}), watermark.lower_bound({1: 5, 2: 5})) == (0, 0)
    watermark.advance(None)
    assert watermark.lower_bound({2: 5}) == 10


def test_of_a_shard_that_was_claimed_again_nothing_has_been_seen() -> None:
    """Under a lease that was lost, no rows are read."""
    watermark = OutboxWatermark()
    for last in (10, 20):
        watermark.committed.advance(Writers(BEGAN, last, set()))
        watermark.lower_bound({1: 5})
        watermark.advance(None)

    assert watermark.lower_bound({1: 5}) == 10
    assert watermark.lower_bound({1: 7}) == 0


def test_another_server_may_give_ids_again() -> None:
    watermark = OutboxWatermark()
    for last in (10, 20):
        watermark.committed.advance(Writers(BEGAN, last, set()))
        watermark.lower_bound(HELD)
        watermark.advance(None)
    watermark.committed.advance(Writers(LATER, 25, set()))

    assert watermark.lower_bound(HELD) == 0


def test_another_server_may_give_the_id_of_a_damaged_row_to_another_one() -> None:
    watermark, unreadable = OutboxWatermark(), []
    for began in (BEGAN, BEGAN, LATER):
        watermark.advance_committed(Writers(began, 10, set()))
        unreadable.append(set(watermark.unreadable))
        watermark.unreadable.add(7)

    assert unreadable == [set(), {7}, set()]


def test_writers_are_looked_at_now_and_then() -> None:
    watermark = OutboxWatermark()

    assert [watermark.committed.take_turn(now) for now in (5.0, 5.5, 5.0 + ADVANCE_EVERY_S, 6.1)] == [True, False, True, False]
