"""An edit of a timetable makes no run for a tick before the edit."""

from datetime import timedelta
from typing import Any

import pytest

from tests.shapes import NOW, dag_view, graph
from tests.unit.handlers.timed_dags import at, tick
from tidegate.handlers.scheduling.timetable import tick_before_edit
from tidegate.schemas.timetable.spec import Continuous, Cron, Dates, Every, Once
from tidegate.schemas.view import DagView


def cron(expression: str, **facts: Any) -> DagView:
    return of(Cron((expression,)), **facts)


def of(timetable: Any, last: float | None = None, **facts: Any) -> DagView:
    """It got its first timetable at 07:00."""
    last_tick = None if last is None else tick(last)
    return dag_view(graph("t", timetable=timetable, **facts), last_tick=last_tick, timed_since=at(-300))


EARLY, MORNING, NEXT, HOURLY = -450, -270, "45 7 * * *", "30 * * * *"
"""The ticks of 04:30 and 07:30; it is noon."""


@pytest.mark.parametrize(
    ("before", "edited", "passed"),
    [
        pytest.param(cron("30 7 * * *", last=MORNING), cron(NEXT, last=MORNING), -255, id="later on the same day"),
        pytest.param(cron("30 7 * * *", last=MORNING), cron("30 7 * * *", last=MORNING), None, id="not edited"),
        pytest.param(cron("30 7 * * *", last=MORNING), cron("0 13 * * *", last=MORNING), None, id="to come on the same day"),
        pytest.param(cron("30 7 * * *", last=MORNING), cron(NEXT, last=MORNING, missed="all"), None, id="with catchup"),
        pytest.param(cron("30 7 * * *", last=EARLY), cron(NEXT, last=EARLY), None, id="its run was due already"),
        pytest.param(cron("0 13 * * *"), cron(NEXT), -255, id="before the first run"),
        pytest.param(of(None), cron(NEXT), None, id="the first timetable"),
        pytest.param(of(None, MORNING), cron(NEXT, last=MORNING), -255, id="a timetable again"),
        pytest.param(of(Every(seconds=7200), -90), of(Every(seconds=3600), -90), 0, id="a shorter interval"),
        pytest.param(of(Continuous(), -1), cron("59 11 * * *", last=-10), -1, id="continuous before"),
        pytest.param(cron("30 7 * * *", last=MORNING), of(Continuous(), MORNING), None, id="continuous from now on"),
        pytest.param(cron("30 7 * * *", last=MORNING), of(Once(), None), None, id="once from now on"),
        pytest.param(of(Dates((at(-9),)), -9), of(Dates((at(-9), at(-5))), -9), -5, id="one more date"),
        pytest.param(cron(HOURLY, last=-90, end_date=at(-60)), cron(HOURLY, last=-90), -30, id="a later end date"),
    ],
)
def test_a_tick_that_only_the_edit_makes_due_is_passed(before: DagView, edited: DagView, passed: float | None) -> None:
    found = tick_before_edit(before, edited, NOW)

    assert (found and (found.run_after - NOW) / timedelta(minutes=1)) == passed
