"""Times at which a DAG runs, in the authoring API."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidegate import Dag, DagError, Dataset, DatasetOrTime, cron, every
from tidegate.schemas.timetable.spec import Cron, Dates, Every, Once, Timetable

DAY, NIGHT = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 1, 23, tzinfo=UTC)
NAIVE = datetime(2024, 5, 1)  # noqa: DTZ001 - it has no zone
ZURICH = "Europe/Zurich"
FIELDS = "write five fields (minute, hour, day of month, month, day of week) such as '0 3 * * *', or six with the seconds last"
NO_TIME = "is no time to run at; write a cron expression, a timedelta or a list of datetimes"


@pytest.mark.parametrize(
    ("schedule", "timetable"),
    [
        ("0 3 * * *", Cron(("0 3 * * *",), ZURICH)),
        ("@daily", Cron(("0 0 * * *",), ZURICH)),
        ("@once", Once()),
        (["0 3 * * *", "@weekly"], Cron(("0 3 * * *", "0 0 * * 0"), ZURICH)),
        (timedelta(hours=6), Every(seconds=21_600, timezone=ZURICH)),
        ([DAY, NIGHT], Dates((DAY, NIGHT))),
        ((DAY,), Dates((DAY,))),
        (Cron(("0 3 * * *",)), Cron(("0 3 * * *",), "UTC")),
    ],
)
def test_a_time_is_one_of_the_dags_zone_unless_it_has_its_own(schedule: Any, timetable: Timetable) -> None:
    alone = Dag("d", schedule=schedule, timezone=ZURICH).spec()
    beside = Dag("d", schedule=DatasetOrTime(Dataset("lake://a"), schedule), timezone=ZURICH).spec()

    assert (alone.timetable, beside.timetable) == (timetable, timetable)


def test_a_timetable_has_triggers_in_utc_without_an_interval_by_default() -> None:
    assert every(days=1) == Every(0, 86_400, "UTC", "trigger", 0)
    assert every(months=1) == Every(1, 0, "UTC", "trigger", 0)
    assert cron("0 3 * * *") == Cron(("0 3 * * *",), "UTC", "trigger", 0)


@pytest.mark.parametrize(
    ("time", "said"),
    [
        ("0 3 *", f"cron '0 3 *' has 3 fields; {FIELDS}"),
        (["0 3 *"], f"cron '0 3 *' has 3 fields; {FIELDS}"),
        (Cron(("0 3 *",)), f"cron '0 3 *' has 3 fields; {FIELDS}"),
        (timedelta(), "the time between two runs must be longer than 0, and no part of it negative, not 0 s"),
        (5, f"5 {NO_TIME}"),
        ([], f"[] {NO_TIME}"),
        (["@daily", DAY], f"['@daily', {DAY!r}] {NO_TIME}"),
        ([DAY, NAIVE], "the date has no time zone; write datetime(…, tzinfo=ZoneInfo('Europe/Zurich'))"),
        ("lake://a", "'lake://a' is the URI of a dataset; write schedule=Dataset('lake://a')"),
    ],
)
def test_a_time_that_cannot_be_is_refused(time: Any, said: str) -> None:
    with pytest.raises(DagError) as caught:
        Dag("d", schedule=DatasetOrTime(Dataset("lake://a"), time))

    assert str(caught.value) == f"DAG 'd': {said}"


def test_a_continuous_dag_has_one_run_at_a_time() -> None:
    with pytest.raises(DagError) as caught:
        Dag("d", schedule="@continuous")

    assert str(caught.value) == "DAG 'd': @continuous starts a run when the one before has ended; write max_active_runs=1"
