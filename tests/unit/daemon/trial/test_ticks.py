"""Ticks of a test that make no run: taken at once, with the results of taking one after the other."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest

from tidegate import Dag, Dataset, DatasetsAndTime, Event, Timed, cron, every
from tidegate.daemon.trial.scheduler import Scheduler
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.graph import graph_of
from tidegate.schemas.state import RunState
from tidegate.schemas.view import PendingEvent

START = datetime(2013, 3, 30, 0, 7, tzinfo=UTC)
a, b = Dataset("lake://a"), Dataset("lake://b")


def after(**delays: float) -> list[Event]:
    """An event of each dataset by its name, a number of hours after the start."""
    return [Event(f"lake://{name[0]}", after=timedelta(hours=hours)) for name, hours in delays.items()]


def played(schedule: Any, events: Sequence[Event], **options: Any) -> tuple[object, ...]:
    runs: list[object] = []

    def play(run: InsertRun, consumed: Sequence[PendingEvent]) -> RunState:
        runs.append((run.run_id, run.logical_date, run.data_interval_start, [event.uri for event in consumed], scheduler.now))
        return RunState.SUCCESS

    scheduler = Scheduler(graph_of(1, Dag("d", schedule=schedule, **options).spec()), START, play)
    scheduler.deliver(events)
    return runs, [(event.dataset_event_id, reason) for event, reason in scheduler.discarded], scheduler.waits_for()


HOURLY = cron("0 * * * *")
DISTANCE = timedelta(minutes=50)


@pytest.mark.parametrize(
    ("schedule", "events", "options"),
    [
        pytest.param(DatasetsAndTime(a, HOURLY), after(a=0.1, a2=50), {}, id="nothing pending in between"),
        pytest.param(DatasetsAndTime(a & b, HOURLY), after(a=0.1, b=50, a2=50.5, b2=50.6), {}, id="one input pending"),
        pytest.param(DatasetsAndTime(a, HOURLY), after(a=50 - 7 / 60), {}, id="an event at a tick"),
        pytest.param(DatasetsAndTime(a, HOURLY), after(a=50), {"catchup": True}, id="all ticks"),
        pytest.param(
            DatasetsAndTime(a, HOURLY),
            after(a=50),
            {"catchup": True, "start_date": START - timedelta(days=2)},
            id="ticks of the past",
        ),
        pytest.param(
            DatasetsAndTime(a, HOURLY), after(a=50), {"start_date": START + timedelta(days=1)}, id="ticks of the future"
        ),
        pytest.param(DatasetsAndTime(a, HOURLY), after(a=50), {"end_date": START + timedelta(days=1)}, id="no more ticks"),
        pytest.param(
            DatasetsAndTime(a, cron("0 3 * * *", timezone="Europe/Zurich")), after(a=80), {}, id="a change of the clocks"
        ),
        pytest.param(DatasetsAndTime(a, cron("0 * * * *", mode="interval")), after(a=0.1, a2=50), {}, id="intervals"),
        pytest.param(
            DatasetsAndTime(Timed(a, min_interval=timedelta(hours=20)), HOURLY), after(a=0.1, a2=1.1, a3=2), {}, id="min_interval"
        ),
        pytest.param(DatasetsAndTime(Timed(a, quiet_for=timedelta(hours=20)), HOURLY), after(a=0.1, a2=10), {}, id="quiet_for"),
        pytest.param(
            DatasetsAndTime(Timed(a & b, within=timedelta(hours=5)), HOURLY), after(a=0.1, b=30, a2=33), {}, id="within"
        ),
        pytest.param(
            DatasetsAndTime(Dataset(a.uri, expire_after=timedelta(hours=10)) & b, HOURLY),
            after(a=0.1, b=30, a2=33),
            {},
            id="expiry",
        ),
        pytest.param(
            DatasetsAndTime(
                Timed(a & Dataset(b.uri, expire_after=timedelta(hours=9)) | a, quiet_for=timedelta(hours=20)), HOURLY
            ),
            after(a=0.1, b=3, a2=70),
            {},
            id="expiry while it is not quiet",
        ),
        pytest.param(DatasetsAndTime(a, DISTANCE), after(a=0.1, a2=50, a3=51), {}, id="a distance"),
        pytest.param(
            DatasetsAndTime(a & b, DISTANCE), after(a=0.1, b=50, a2=50.5, b2=50.6), {}, id="a distance, one input pending"
        ),
        pytest.param(DatasetsAndTime(a, DISTANCE), after(a=50), {"run_immediately": False}, id="a distance, not at once"),
        pytest.param(
            DatasetsAndTime(a, DISTANCE),
            after(a=50),
            {"catchup": True, "start_date": START - timedelta(days=2)},
            id="a distance, ticks of the past",
        ),
        pytest.param(
            DatasetsAndTime(a, DISTANCE),
            after(a=50),
            {"start_date": START + timedelta(days=1), "end_date": START + timedelta(days=2)},
            id="a distance, ticks of the future",
        ),
        pytest.param(
            DatasetsAndTime(Timed(a, quiet_for=timedelta(hours=20)), DISTANCE),
            after(a=0.1, a2=10),
            {},
            id="a distance and quiet_for",
        ),
        pytest.param(
            DatasetsAndTime(a, every(minutes=50, mode="interval")), after(a=0.1, a2=50), {}, id="intervals of a distance"
        ),
        pytest.param(DatasetsAndTime(a, every(months=1, days=1)), after(a=0.1, a2=9000), {}, id="months"),
    ],
)
def test_ticks_are_passed_as_one_after_the_other(schedule: Any, events: list[Event], options: dict[str, Any]) -> None:
    jumped = played(schedule, events, **options)

    with patch.object(Scheduler, "_pass_ticks"):
        assert jumped == played(schedule, events, **options)


@pytest.mark.parametrize("minutes", [cron("* * * * *"), timedelta(minutes=1), every(minutes=1, mode="interval")])
def test_a_year_of_minutes_takes_few_decisions(minutes: Any) -> None:
    with patch.object(Scheduler, "_decide", autospec=True, side_effect=Scheduler._decide) as decide:
        runs, *_ = played(DatasetsAndTime(a, minutes), after(a=0.1, a2=365 * 24))

    assert isinstance(runs, list)
    assert (len(runs), decide.call_count < 20) == (2, True)


def test_a_condition_that_is_limited_for_long_makes_its_run() -> None:
    limited = Timed(a, min_interval=timedelta(days=2))

    runs, *_ = played(DatasetsAndTime(limited, cron("* * * * *")), after(a=0.1, a2=1))

    assert isinstance(runs, list)
    assert [now - START < timedelta(days=1) for *_, now in runs] == [True, False]
