"""Bars as long as runs and tasks took, each in a drawing of its own."""

from msgspec import Struct

COLUMN = (12, 34)
"""The size of the drawing above a column of the grid."""

ROW = (200, 10)
"""The size of the drawing beside a task."""

LEAST_HEIGHT, LEAST_WIDTH = 3.0, 2.0
"""A bar of no time can be seen, too."""


class Bar(Struct, frozen=True):
    """A rectangle in a drawing of the size `of`."""

    of: tuple[int, int]
    x: float
    y: float
    width: float
    height: float


def duration_bar(took_s: float, longest_s: float) -> Bar:
    """It stands on the lower edge."""
    width, height = COLUMN
    high = round(min(max(took_s / longest_s * height, LEAST_HEIGHT), height), 1)
    return Bar(COLUMN, 1, round(height - high, 1), width - 2, high)


def span_bar(began_s: float, took_s: float, longest_s: float) -> Bar:
    """It begins so long after the run, whose length is the width. All of it is in the drawing."""
    width, height = ROW
    begin = min(max(began_s / longest_s * width, 0), width - LEAST_WIDTH)
    long = min(max(took_s / longest_s * width, LEAST_WIDTH), width - begin)
    return Bar(ROW, round(begin, 1), 1, round(long, 1), height - 2)
