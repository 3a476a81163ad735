"""How long runs took, as a chart: a bar for each run, beside the usual durations."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tidegate.daemon.web.rendering import ran_s
from tidegate.schemas.queries.grid import GridRun, Usual
from tidegate.schemas.text import span

HEIGHT, PITCH = 140, 9
"""The height of the longest bar, and the distance of two bars."""

LEFT, TOP, MARGIN = 54, 8, 6
"""The place of the texts of the scale, of the half of a text above the highest line, and beside the last bar."""

LINES = 4
"""The lines of the scale above zero."""


class RunBar(Struct, frozen=True):
    """A run, where its bar is, and how long it took in words."""

    run: GridRun
    x: int
    y: float
    height: float
    took: str
    width: int = PITCH - 2


class ScaleLine(Struct, frozen=True):
    """A line of the scale, and its text."""

    y: float
    text: str

    @property
    def text_y(self) -> float:
        return self.y + 3


class Chart(Struct, frozen=True):
    """Bars in the order of the runs, between `left` and `right`.

    `usual_y` and `usual_height` are the band of the usual durations; without them the height is 0.
    """

    bars: Sequence[RunBar]
    lines: Sequence[ScaleLine]
    right: int
    usual_y: float
    usual_height: float
    left: int = LEFT
    text_x: int = LEFT - MARGIN
    height: int = TOP + HEIGHT + 4

    @property
    def width(self) -> int:
        return self.right + MARGIN

    @property
    def usual_width(self) -> int:
        return self.right - self.left


def duration_chart(runs: Sequence[GridRun], usual: Usual | None, now: datetime) -> Chart:
    """A run that has not started has no bar, and leaves its place empty."""
    durations = [ran_s(run.start_date, run.end_date, now) for run in runs]
    longest = max([*durations, usual.high_s if usual else 0.0, 1.0])

    def height(seconds: float) -> float:
        return round(seconds / longest * HEIGHT, 1)

    bars = [
        _bar(run, number, max(height(seconds), 2.0), span(seconds))
        for number, (run, seconds) in enumerate(zip(runs, durations, strict=True))
        if run.start_date is not None
    ]
    lines = [ScaleLine(TOP + HEIGHT * (1 - line / LINES), span(longest * line / LINES)) for line in range(1, LINES + 1)]
    low, high = (height(usual.low_s), height(usual.high_s)) if usual else (0.0, 0.0)
    return Chart(bars, lines, LEFT + len(runs) * PITCH, round(TOP + HEIGHT - high, 1), round(high - low, 1))


def _bar(run: GridRun, number: int, height: float, took: str) -> RunBar:
    return RunBar(run, LEFT + 1 + number * PITCH, round(TOP + HEIGHT - height, 1), height, took)
