"""How long runs took, as a chart: a bar for each run, beside the usual durations."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tidegate.daemon.web.rendering import ran_s
from tidegate.schemas.queries.grid import GridRun, Usual
from tidegate.schemas.text import span

HEIGHT, PITCH = 140, 9
"""The height of the longest bar, and the distance of two bars."""

LINES = 4
"""The lines of the scale above zero."""


class Bar(Struct, frozen=True):
    """A run, where its bar is, and how long it took in words."""

    run: GridRun
    x: int
    y: float
    height: float
    took: str


class Chart(Struct, frozen=True):
    """Bars in the order of the runs. `lines` are those of the scale: their place and text.

    `usual_y` and `usual_height` are the band of the usual durations; without them the height is 0.
    """

    bars: Sequence[Bar]
    lines: Sequence[tuple[float, str]]
    width: int
    usual_y: float
    usual_height: float


def duration_chart(runs: Sequence[GridRun], usual: Usual | None, now: datetime) -> Chart:
    """A run that has not started has no bar, and leaves its place empty."""
    durations = [ran_s(run.start_date, run.end_date, now) for run in runs]
    longest = max([*durations, usual.high_s if usual else 0.0, 1.0])

    def height(seconds: float) -> float:
        return round(seconds / longest * HEIGHT, 1)

    bars = [
        Bar(run, number * PITCH, HEIGHT - max(height(seconds), 2.0), max(height(seconds), 2.0), span(seconds))
        for number, (run, seconds) in enumerate(zip(runs, durations, strict=True))
        if run.start_date is not None
    ]
    lines = [(HEIGHT * (1 - line / LINES), span(longest * line / LINES)) for line in range(1, LINES + 1)]
    low, high = (height(usual.low_s), height(usual.high_s)) if usual else (0.0, 0.0)
    return Chart(bars, lines, len(runs) * PITCH, HEIGHT - high, high - low)
