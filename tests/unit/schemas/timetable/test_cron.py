"""Valid cron expressions, and their matches on a wall clock without changes."""

from datetime import datetime, timedelta
from itertools import islice, pairwise
from random import Random

import pytest
from croniter import CroniterBadDateError, croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.schemas.timetable.given import cron, fires, utc
from tests.unit.schemas.timetable.oracle import Matcher
from tidegate.schemas.timetable.cron import Expression, compiled, month_days

SECOND = timedelta(seconds=1)
SPANS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7), (0, 59))


@pytest.mark.parametrize(
    ("expression", "start", "expected"),
    [
        pytest.param(
            *("0 0 13 * 5", "2024-09-01", ["2024-09-06", "2024-09-13", "2024-09-20", "2024-09-27", "2024-10-04"]),
            id="t30-both-days-mean-either",
        ),
        ("0 0 31 * *", "2024-01-01", ["2024-01-31", "2024-03-31", "2024-05-31", "2024-07-31", "2024-08-31"]),
        ("0 12 * * 7", "2024-01-01", ["2024-01-07 12:00", "2024-01-14 12:00"]),
        ("0 12 * * 0", "2024-01-01", ["2024-01-07 12:00", "2024-01-14 12:00"]),
        ("0 0 29 2 *", "2024-03-01", ["2028-02-29", "2032-02-29"]),
        ("0 0 29 2 *", "2096-03-01", ["2104-02-29"]),
        ("0 0 L * *", "2024-01-31 01:00", ["2024-02-29", "2024-03-31", "2024-04-30"]),
        ("0 0 15,L 2 *", "2024-01-01", ["2024-02-15", "2024-02-29", "2025-02-15", "2025-02-28"]),
        ("0 0 15W * *", "2024-06-01", ["2024-06-14", "2024-07-15", "2024-08-15", "2024-09-16"]),
        ("0 0 1W * *", "2024-06-01", ["2024-06-03", "2024-07-01"]),
        ("0 0 2W * *", "2024-11-01", ["2024-11-01", "2024-12-02"]),
        ("0 0 31W * *", "2024-03-01", ["2024-03-29", "2024-04-30", "2024-05-31", "2024-06-28"]),
        ("0 0 * * 5#3", "2024-01-01", ["2024-01-19", "2024-02-16"]),
        ("0 0 * * mon#5", "2024-01-01", ["2024-01-29", "2024-04-29", "2024-07-29"]),
        ("0 0 * 2 1#5", "2024-01-01", ["2044-02-29"]),
        ("0 0 * * L5", "2024-01-01", ["2024-01-26", "2024-02-23", "2024-03-29"]),
        ("0 0 * * L5", "2024-05-01", ["2024-05-31", "2024-06-28"]),
        ("0 0 13 9 5#3", "2024-01-01", ["2024-09-13", "2024-09-20", "2025-09-13", "2025-09-19"]),
        ("0 0 15W 6 1", "2024-06-10", ["2024-06-10", "2024-06-14", "2024-06-17", "2024-06-24"]),
        ("0 0 ? * fri", "2024-01-01", ["2024-01-05", "2024-01-12"]),
        ("0 22-2/2 * * *", "2024-01-01", ["2024-01-01 00:00", "2024-01-01 02:00", "2024-01-01 22:00", "2024-01-02 00:00"]),
        ("0 0 1 nov-feb *", "2024-01-02", ["2024-02-01", "2024-11-01", "2024-12-01"]),
        ("15 10 * * * 30", "2024-01-01", ["2024-01-01 10:15:30", "2024-01-02 10:15:30"]),
        ("59 23 31 12 * 59", "2024-01-01", ["2024-12-31 23:59:59", "2025-12-31 23:59:59"]),
        ("* * * * * */25", "2024-01-01", ["2024-01-01 00:00:00", "2024-01-01 00:00:25", "2024-01-01 00:00:50"]),
        ("  0\t3  * * MON ", "2024-01-02", ["2024-01-08 03:00"]),
    ],
)
def test_an_expression_fires_at(expression: str, start: str, expected: list[str]) -> None:
    assert fires(cron(expression), len(expected), start) == [utc(at) for at in expected]


@pytest.mark.parametrize(
    ("expression", "blamed"),
    [
        pytest.param("0 0 1 13 0", "the month cannot be '13'", id="t09"),
        ("* * * *", "has 4 fields"),
        ("0 0 * * * 0 2030", "has 7 fields"),
        ("", "has 0 fields"),
        ("60 * * * *", "the minute cannot be '60'"),
        ("* 24 * * *", "the hour cannot be '24'"),
        ("0 0 0 * *", "the day of month cannot be '0'"),
        ("0 0 32 * *", "the day of month cannot be '32'"),
        ("0 0 * * 8", "the day of week cannot be '8'"),
        ("0 0 * * fry", "the day of week cannot be 'fry'"),
        ("0 0 * * 1#6", "the day of week cannot be '1#6'"),
        ("*/0 * * * *", "the minute cannot be '*/0'"),
        ("-5 * * * *", "the minute cannot be '-5'"),
        ("1.5 * * * *", "the minute cannot be '1.5'"),
        ("0 0 * * * 60", "the second cannot be '60'"),
        ("R * * * *", "the minute cannot be 'r'"),
        ("0 H(1-3) * * *", "the hour cannot be 'h(1-3)'"),
        ("@reboot", "'@reboot' is not known"),
        ("@every 30s", "'@every 30s' is not known"),
    ],
)
def test_a_refused_expression_is_named_with_the_field_to_blame(expression: str, blamed: str) -> None:
    with pytest.raises(ValueError, match=r"^cron .*write ") as raised:
        compiled(expression)

    assert repr(expression) in str(raised.value)
    assert blamed in str(raised.value)


EXAMPLE = "write five fields (minute, hour, day of month, month, day of week) such as '0 3 * * *', or six with the seconds last"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("* * * *", f"cron '* * * *' has 4 fields; {EXAMPLE}"),
        (
            "@reboot",
            f"cron '@reboot' is not known; {EXAMPLE}, or one of @hourly, @daily, @midnight, @weekly, @monthly, @quarterly, "
            "@yearly, @annually, or, as a whole schedule, @once and @continuous",
        ),
        (
            "60 * * * *",
            "cron '60 * * * *': the minute cannot be '60'; write *, 0 to 59, a range a-b, a list a,b or a step */n",
        ),
    ],
)
def test_a_refused_expression_is_told_what_to_write(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^cron ") as raised:
        compiled(expression)

    assert str(raised.value) == message


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "*/5 * 31 2 *"])
def test_an_expression_that_never_fires_is_accepted_and_has_no_ticks(expression: str) -> None:
    never = compiled(expression)

    assert never.after(datetime(2024, 1, 1)) is None  # noqa: DTZ001 - a wall clock
    assert never.until(datetime(2024, 1, 1)) is None  # noqa: DTZ001 - a wall clock
    assert fires(cron(expression, zone="Europe/Zurich"), 1, "2024-01-01") == []


@pytest.mark.parametrize("weekdays", ["*/1", "0/1", "0-6", "1-7", "0,1,2,3,4,5,6"])
@pytest.mark.parametrize(("days", "are_all"), [("*/4", False), ("1,5,9", True)])
def test_all_weekdays_are_as_free_as_a_star_only_beside_one(days: str, weekdays: str, *, are_all: bool) -> None:
    """Beside numbers they add all days, as two lists of days do."""
    text = f"0 0 {days} * {weekdays}"

    assert (len(month_days(compiled(text), 2024, 5)) == 31) is are_all
    assert Matcher(text).either is are_all


def test_a_match_forty_years_away_is_found_both_ways() -> None:
    earlier, later = datetime(2072, 2, 29), datetime(2112, 2, 29)  # noqa: DTZ001 - wall clocks
    fifth_monday_in_february = compiled("0 0 * 2 1#5")

    assert fifth_monday_in_february.after(earlier) == later
    assert fifth_monday_in_february.until(later - SECOND) == earlier


def any_expression(chance: Random) -> str:
    """Five or six fields, most of them free, so that the others matter."""
    return " ".join("*" if chance.random() < 0.5 else any_field(chance, *SPANS[index]) for index in range(chance.choice((5, 6))))


def any_field(chance: Random, low: int, high: int) -> str:
    first, last = sorted(chance.sample(range(low, high + 1), 2))
    step = chance.randint(1, 9)
    return chance.choice(
        (f"{first}", f"{first}-{last}", f"{first}-{last}/{step}", f"*/{step}", f"{first},{last}", f"{first}/{step}")
    )


MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(lambda at: at.replace(microsecond=0))  # noqa: DTZ001 - a wall clock


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=True), MOMENTS)
def test_stepping_finds_the_same_as_croniter(chance: Random, wall: datetime) -> None:
    text = any_expression(chance)

    found = compiled(text).after(wall), compiled(text).until(wall)

    # croniter looks before a moment, not until it.
    assert found == (or_none(croniter(text, wall), "get_next"), or_none(croniter(text, wall + SECOND), "get_prev")), text


def or_none(found: "croniter[datetime]", step: str) -> datetime | None:
    try:
        at: datetime = getattr(found, step)(datetime)
    except CroniterBadDateError:
        return None
    return at


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=True), MOMENTS)
def test_what_is_found_matches_and_what_lies_between_does_not(chance: Random, wall: datetime) -> None:
    text = any_expression(chance)
    expression, matches = compiled(text), Matcher(text)

    found = list(steps(expression, wall))

    assert all(matches(at) for at in found), text
    for begin, end in pairwise(found[:5]):
        between = (begin + (end - begin) * share for share in (0.1, 0.5, 0.9))
        assert not any(matches(at.replace(microsecond=0)) for at in between if at.replace(microsecond=0) != begin), text


def steps(expression: Expression, wall: datetime) -> list[datetime]:
    found = list[datetime]()
    while len(found) < 20 and (following := expression.after(wall)):
        found.append(wall := following)
    return found


@pytest.mark.parametrize(
    "text", ["*/20 22,23 * * *", "0 6,18 1,15 * *", "30 0 31 * *", "0 0 29 2 *", "59 23 31 12 * 58,59", "0 * * 1,12 1#1"]
)
@pytest.mark.parametrize("wall", [datetime(2024, 2, 29), datetime(2023, 12, 31, 23, 59, 59), datetime(2024, 1, 15, 12)])  # noqa: DTZ001 - a wall clock
def test_all_matches_beside_a_moment_are_those_of_single_steps(text: str, wall: datetime) -> None:
    """Neither way has a match at the moment itself."""
    expression = compiled(text)
    onwards = list(islice(expression.beside(wall, is_reverse=False), 20))

    assert onwards == steps(expression, wall)
    assert list(islice(expression.beside(onwards[-1], is_reverse=True), 19)) == onwards[-2::-1]


@pytest.mark.parametrize("is_reverse", [False, True])
def test_what_never_fires_has_nothing_beside_a_moment(*, is_reverse: bool) -> None:
    assert list(compiled("0 0 30 2 *").beside(datetime(2024, 1, 1), is_reverse=is_reverse)) == []  # noqa: DTZ001 - a wall clock


@given(st.text("0123456789*/-,#LW?lhr() @amonfri\u0665", max_size=12), st.integers(0, 5))
def test_every_field_is_parsed_or_refused_with_a_sentence(text: str, position: int) -> None:
    fields = ["*"] * 6
    fields[position] = text or "*"

    said = read_or_refused(" ".join(fields))

    assert said == "" or said.startswith("cron ")


def read_or_refused(text: str) -> str:
    """Why an expression is refused, nothing where it is not."""
    try:
        compiled(text).after(datetime(2024, 1, 1))  # noqa: DTZ001 - a wall clock
    except ValueError as error:
        return str(error)
    return ""
