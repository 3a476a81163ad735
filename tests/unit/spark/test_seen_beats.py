"""A runner is frozen when a daemon of its host has seen no new heartbeat for three quarters of the time that others wait."""

from uuid import uuid4

from tidegate.daemon.spark.seen_beats import SeenBeats


class Clock:
    """Stands at `at`."""

    at = 0.0

    def __call__(self) -> float:
        return self.at


def looks(*seen: tuple[float, int | None]) -> list[bool]:
    """What each look finds: its time, and the last heartbeat then."""
    clock, id_ = Clock(), uuid4()
    beats = SeenBeats(8.0, clock)
    found = []
    for clock.at, beat in seen:
        found.append(beats.is_frozen(id_, beat))
    return found


def test_a_runner_without_a_new_heartbeat_for_three_quarters_is_frozen() -> None:
    assert looks((0, 1), (5.9, 1), (6, 1)) == [False, False, True]


def test_each_new_heartbeat_counts_anew_also_one_of_an_earlier_time() -> None:
    assert looks((0, 5), (5, 3), (10, 3), (11, 3)) == [False, False, False, True]


def test_a_first_look_finds_no_runner_frozen() -> None:
    assert looks((1000, None)) == [False]


def test_a_runner_without_any_heartbeat_is_frozen_too() -> None:
    assert looks((0, None), (6, None)) == [False, True]


def test_a_runner_that_has_ended_is_forgotten() -> None:
    clock, id_ = Clock(), uuid4()
    beats = SeenBeats(8.0, clock)
    beats.is_frozen(id_, 1)
    beats.forget(id_)
    clock.at = 100.0

    assert not beats.is_frozen(id_, 1)
