"""The offset periods of a time zone, and the wall clock times that each of them owns."""

from datetime import date, datetime, timedelta
from itertools import islice, pairwise

import pytest

from tests.local_zone import local_zone
from tests.unit.schemas.timetable.given import cron, utc
from tidegate.schemas.timetable import wallclock
from tidegate.schemas.timetable.cron import Expression, compiled
from tidegate.schemas.timetable.tick_times import ticks_of
from tidegate.schemas.timetable.wallclock import NONE, SECOND, days_of_year, instant, local, offset_periods, start_of_day, zone

HOUR = timedelta(hours=1)


def naive(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("clock", "year", "changes", "hours"),
    [
        pytest.param("UTC", 2024, [], [0, 0, 0], id="no change"),
        pytest.param("Europe/Zurich", 2023, ["03-26 01:00", "10-29 01:00"], [1, 1, 2, 1, 1], id="two changes"),
        pytest.param("Africa/Casablanca", 2008, ["06-01 00:00", "08-31 23:00"], [0, 0, 1, 0, 0], id="at midnight in UTC"),
        pytest.param("Africa/Casablanca", 2024, ["03-10 02:00", "04-14 02:00"], [1, 1, 0, 1, 1], id="less for a month"),
        pytest.param("Europe/Lisbon", 1911, [], [-0.6125, -0.6125, 0], id="at the end of the year"),
        pytest.param("Europe/Lisbon", 1912, [], [-0.6125, 0, 0], id="at the beginning of the year"),
        pytest.param(
            *("Pacific/Apia", 2011, ["04-02 14:00", "09-24 14:00", "12-30 10:00"], [-10, -10, -11, -10, 14, 14]),
            id="a day was left out",
        ),
    ],
)
def test_a_year_has_a_period_from_each_change_to_the_next(clock: str, year: int, changes: list[str], hours: list[float]) -> None:
    """Each period knows the offsets of its neighbours, also those in other years."""
    moments = [naive(f"{year}-01-01"), *(naive(f"{year}-{change}") for change in changes), naive(f"{year + 1}-01-01")]
    offsets = [timedelta(hours=each) for each in hours]

    expected = zip(moments, moments[1:], offsets, offsets[1:], offsets[2:], strict=False)
    assert offset_periods(clock, year) == tuple(expected)


def test_the_periods_of_a_zone_are_the_same_wherever_the_daemon_runs() -> None:
    here = offset_periods("Europe/Zurich", 2023)
    offset_periods.cache_clear()

    with local_zone("Asia/Tokyo"):
        elsewhere = offset_periods("Europe/Zurich", 2023)

    assert elsewhere == here


def test_ticks_are_the_same_wherever_the_daemon_runs() -> None:
    ticks, at = ticks_of(cron("17 5 * * *", zone="Europe/Zurich")), utc("2031-07-01 03:00")

    with local_zone("Asia/Tokyo"):
        found = ticks.until(at), ticks.after(at), next(ticks.walk(at, is_reverse=True)), next(ticks.walk(at, is_reverse=False))

    assert found == (utc("2031-06-30 03:17"), utc("2031-07-01 03:17")) * 2


@pytest.mark.parametrize(
    ("index", "opens", "closes", "closes_every_hour", "late"),
    [
        pytest.param(0, "2023-01-01 01:00", "2023-03-26 03:00", "2023-03-26 03:00", NONE, id="until clocks go forward"),
        pytest.param(1, "2023-03-26 03:00", "2023-10-29 02:00", "2023-10-29 03:00", HOUR, id="until they go back"),
        pytest.param(2, "2023-10-29 02:00", "2024-01-01 01:00", "2024-01-01 01:00", NONE, id="until the year ends"),
    ],
)
def test_a_period_owns_skipped_times_after_it_and_repeated_times_only_for_every_hour(
    index: int, opens: str, closes: str, closes_every_hour: str, late: timedelta
) -> None:
    period = offset_periods("Europe/Zurich", 2023)[index]

    assert (period.opens, period.late) == (naive(opens), late)
    assert (period.closes(every_hour=False), period.closes(every_hour=True)) == (naive(closes), naive(closes_every_hour))


@pytest.mark.parametrize(
    ("wall", "at", "shown"),
    [
        pytest.param("2023-07-01 12:00", "2023-07-01 10:00", "2023-07-01 12:00", id="once"),
        pytest.param("2023-03-26 02:30", "2023-03-26 01:30", "2023-03-26 03:30", id="skipped"),
        pytest.param("2023-10-29 02:30", "2023-10-29 01:30", "2023-10-29 02:30", id="repeated"),
    ],
)
def test_a_wall_clock_time_has_one_instant(wall: str, at: str, shown: str) -> None:
    found = instant(naive(wall), "Europe/Zurich")

    assert (found, local(found, "Europe/Zurich")) == (utc(at), naive(shown))


@pytest.mark.parametrize(
    ("expression", "first", "last", "count", "searches"),
    [
        pytest.param("* * * * *", "2023-07-01 00:00", "2023-07-01 16:39", 1000, 1, id="one offset"),
        pytest.param("*/30 * * * *", "2023-10-28 23:30", "2023-10-29 02:30", 7, 2, id="clocks go back"),
        pytest.param("*/30 * * * *", "2023-03-25 23:30", "2023-03-26 02:30", 7, 4, id="clocks go forward"),
    ],
)
@pytest.mark.parametrize("is_reverse", [False, True])
def test_ticks_with_one_offset_are_found_by_one_search(
    monkeypatch: pytest.MonkeyPatch, expression: str, first: str, last: str, count: int, searches: int, *, is_reverse: bool
) -> None:
    """A search takes ten times as long as the tick beside another. Times that were skipped need searches."""
    searched = list[datetime]()
    search = wallclock.until if is_reverse else wallclock.after

    def counted(expression: Expression, clock: str, at: datetime) -> datetime | None:
        searched.append(at)
        return search(expression, clock, at)

    monkeypatch.setattr(wallclock, "until" if is_reverse else "after", counted)
    begin = naive(last) if is_reverse else naive(first) - SECOND

    found = list(islice(wallclock.walk(compiled(expression), "Europe/Zurich", begin, is_reverse=is_reverse), count))

    assert sorted((found[0], found[-1])) == [naive(first), naive(last)]
    assert len(searched) == searches


@pytest.mark.parametrize("at", ["1911-12-31 23:30", "1912-01-01 00:01"])
def test_a_time_that_was_skipped_as_the_year_began_comes_later_by_the_change(at: str) -> None:
    """The clocks of Lisbon were put forward by 36 minutes and 45 seconds, from 23:23:15 to midnight."""
    found = wallclock.after(compiled("30 23 * * *"), "Europe/Lisbon", naive(at))

    assert found == naive("1912-01-01 00:06:45")


def test_an_unknown_time_zone_is_refused_with_what_to_write() -> None:
    with pytest.raises(ValueError, match="zone") as raised:
        zone("Mars/Base")

    message = "there is no time zone 'Mars/Base'; write a name of the tz database, such as 'Europe/Zurich' or 'UTC'"
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("day", "clock", "start"),
    [
        pytest.param("2025-01-01", "UTC", "2025-01-01 00:00", id="utc"),
        pytest.param("2025-01-01", "Pacific/Auckland", "2024-12-31 11:00", id="east"),
        pytest.param("2024-03-31", "Asia/Beirut", "2024-03-30 22:00", id="a midnight that is skipped"),
        pytest.param("2023-11-05", "America/Havana", "2023-11-05 04:00", id="a midnight and an hour that come twice"),
        pytest.param("2011-12-30", "Pacific/Apia", "2011-12-30 10:00", id="a day that is skipped"),
        pytest.param("2011-12-31", "Pacific/Apia", "2011-12-30 10:00", id="the day after it"),
    ],
)
def test_a_day_begins_with_its_first_instant(day: str, clock: str, start: str) -> None:
    assert start_of_day(date.fromisoformat(day), clock) == utc(start)


@pytest.mark.parametrize(("year", "days"), [(2024, 366), (2025, 365)])
def test_the_days_of_a_year_end_with_the_start_of_the_next_one(year: int, days: int) -> None:
    starts = days_of_year(year, "Europe/Zurich")

    assert (len(starts), starts[0], starts[-1]) == (days + 1, utc(f"{year - 1}-12-31 23:00"), utc(f"{year}-12-31 23:00"))
    assert {after - before for before, after in pairwise(starts)} == {23 * HOUR, 24 * HOUR, 25 * HOUR}
