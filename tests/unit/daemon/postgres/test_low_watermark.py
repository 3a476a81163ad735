"""From where on the outbox is read."""

from datetime import UTC, datetime

from tidegate.daemon.postgres.low_watermark import SEE_EVERY_S, Floor
from tidegate.schemas.queries.writers import Writers

BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
SHARDS = {1, 2}


def seen(*looks: tuple[int, set[str]], oldest: int | None = None) -> int:
    """Where is read from after these looks at the writers, each followed by one for rows."""
    floor = Floor()
    for last, writers in looks:
        floor.settled.see(Writers(BEGAN, last, writers))
        floor.below(SHARDS)
        floor.rise(oldest)
    return floor.below(SHARDS)


def test_it_rises_when_all_who_wrote_have_ended() -> None:
    assert seen((10, {"a", "b"})) == 0
    assert seen((10, {"a", "b"}), (20, {"b", "c"})) == 0
    assert seen((10, {"a", "b"}), (20, {"b", "c"}), (30, {"c"})) == 10


def test_who_began_to_write_later_holds_up_nothing_before() -> None:
    assert seen((10, {"a"}), (20, {"b"}), (30, {"c"})) == 20


def test_a_row_that_is_there_is_read_until_it_is_deleted() -> None:
    assert seen((10, set()), (20, set()), (30, set()), oldest=7) == 7
    assert seen((10, set()), (20, set()), (30, set()), oldest=27) == 20


def test_of_shards_that_are_new_nothing_has_been_seen() -> None:
    floor = Floor()
    for last in (10, 20):
        floor.settled.see(Writers(BEGAN, last, set()))
        floor.rise(None)

    assert (floor.below({1}), floor.below({1, 2})) == (0, 0)
    floor.rise(None)
    assert floor.below({2}) == 10


def test_another_server_may_give_ids_again() -> None:
    floor = Floor()
    for last in (10, 20):
        floor.settled.see(Writers(BEGAN, last, set()))
        floor.below(SHARDS)
        floor.rise(None)
    floor.settled.see(Writers(datetime(2026, 11, 2, tzinfo=UTC), 25, set()))

    assert floor.below(SHARDS) == 0


def test_writers_are_looked_at_now_and_then() -> None:
    floor = Floor()

    assert [floor.settled.is_to_see(now) for now in (5.0, 5.5, 5.0 + SEE_EVERY_S, 6.1)] == [True, False, True, False]
