"""A partition with records to read that does not move for half a minute is stalled."""

from collections.abc import Callable

from tidegate.events.source import Partition
from tidegate.events.stall_detector import STALLED_AFTER_S, StallDetector

A, B = Partition("t", 0), Partition("t", 1)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def watched() -> tuple[StallDetector, Callable[[float], None]]:
    """A watchdog that saw lag on A at position 5, and a way to let time pass."""
    clock = Clock()
    progress = StallDetector(clock)
    progress.record_positions({A: 5})
    progress.stalled({A: 10})

    def wait(seconds: float) -> None:
        clock.now += seconds

    return progress, wait


def test_a_partition_that_stands_still_with_lag_has_stalled() -> None:
    progress, wait = watched()

    wait(STALLED_AFTER_S)

    assert progress.stalled({A: 10}) == [A]


def test_it_has_not_before_the_time_is_up() -> None:
    progress, wait = watched()

    wait(STALLED_AFTER_S - 0.1)

    assert progress.stalled({A: 10}) == []


def test_a_partition_that_moved_meanwhile_has_not() -> None:
    progress, wait = watched()

    wait(STALLED_AFTER_S - 1)
    progress.record_positions({A: 6})
    wait(STALLED_AFTER_S - 1)

    assert progress.stalled({A: 9}) == []


def test_the_same_position_again_is_no_progress() -> None:
    progress, wait = watched()

    wait(STALLED_AFTER_S - 1)
    progress.record_positions({A: 5})
    wait(1)

    assert progress.stalled({A: 10}) == [A]


def test_a_partition_without_lag_never_stalls() -> None:
    progress, wait = watched()

    wait(10 * STALLED_AFTER_S)

    assert progress.stalled({A: 0}) == []


def test_records_after_a_long_silence_have_the_whole_time_to_be_read() -> None:
    progress, wait = watched()
    wait(10 * STALLED_AFTER_S)
    progress.stalled({A: 0})

    wait(STALLED_AFTER_S - 1)

    assert progress.stalled({A: 1}) == []


def test_a_new_partition_has_the_whole_time_to_be_read() -> None:
    progress, wait = watched()

    wait(STALLED_AFTER_S)

    assert progress.stalled({B: 10}) == []


def test_one_moving_partition_does_not_hide_another_that_stalled() -> None:
    progress, wait = watched()
    progress.stalled({A: 10, B: 10})

    wait(STALLED_AFTER_S)
    progress.record_positions({B: 7})

    assert progress.stalled({A: 10, B: 3}) == [A]
