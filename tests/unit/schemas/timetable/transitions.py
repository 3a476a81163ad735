"""Every change of the clocks in the tz database from 2020 to 2037, or some of them, and expressions that fire near them.

What is drawn at random is drawn again with the environment variable TEST_SEED; TEST_LONG asks for all there is.
"""

import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from tests.unit.schemas.timetable.oracle import changes

LONG = bool(os.environ.get("TEST_LONG"))
SEED = int(os.environ.get("TEST_SEED") or Random().randrange(2**32))
YEARS = range(2020, 2038)

ODD = (
    *("Australia/Lord_Howe", "Antarctica/Troll", "Antarctica/Casey", "Africa/Casablanca", "Africa/El_Aaiun", "Europe/Dublin"),
    *("America/Scoresbysund", "America/Nuuk", "America/Havana", "America/Santiago", "Asia/Beirut", "Asia/Gaza", "Africa/Cairo"),
    *("Asia/Kathmandu", "Pacific/Chatham", "Asia/Tehran", "America/St_Johns", "Pacific/Apia", "Europe/Zurich", "UTC"),
)
"""Zones whose clocks are put forward or back by less or more than an hour, at midnight, in winter, or not from full hours."""

EXPRESSIONS = (
    *("0 3 * * *", "30 2 * * *", "0 2 * * *", "15 1 * * *", "30 1 * * *", "45 2 * * *", "0 0 * * *", "30 0 * * *", "0 1 * * *"),
    *("59 23 * * *", "30 23 * * *", "5 4 * * *", "10 3 * * *", "0 0,12 * * *", "0 1-23 * * *", "45 2,3 * * *", "0,30 2,3 * * *"),
    *("* * * * *", "*/5 * * * *", "*/7 * * * *", "*/30 * * * *", "0 * * * *", "30 * * * *", "15,45 */1 * * *", "17 0-23 * * *"),
    *("0 */2 * * *", "30 */2 * * *", "0 1-23/2 * * *", "*/15 1-3 * * *", "20 0-5 * * *", "*/20 22-23 * * *", "* 0-3 * * *"),
    *("30 2 * * 0", "0 * * * 7", "*/30 * * * sun", "0 2 * * mon-fri", "30 1 1-7 * 0", "0 3 L * *", "30 2 * mar,oct *"),
    *("*/10 * 25-31 3,10 *", "0 0 1 * *", "0 * 1,31 * 5", "0 23 * * sat,thu"),
)


class Change(NamedTuple):
    """A moment at which the clocks of a zone are put forward or back; any moment for a zone where they never are."""

    zone: str
    at: datetime


def around(zone: str, years: Iterable[int], chance: Random) -> list[Change]:
    found = [at for year in years for at in changes(ZoneInfo(zone), year)]
    any_moment = datetime(chance.choice(YEARS), 1, 1) + timedelta(minutes=chance.randrange(500_000))  # noqa: DTZ001 - a wall clock
    return [Change(zone, at) for at in found or [any_moment]]


def odd_changes(chance: Random) -> Iterator[Change]:
    for zone in ODD:
        yield chance.choice(around(zone, [chance.choice(YEARS)], chance))


def some_changes(chance: Random) -> Iterator[Change]:
    """One in each odd zone, then any, without end."""
    zones = sorted(available_timezones())
    yield from odd_changes(chance)
    while True:
        yield chance.choice(around(chance.choice(zones), [chance.choice(YEARS)], chance))


def all_changes(chance: Random) -> Iterator[Change]:
    """Every one there is, and a moment in each zone that has none."""
    for zone in sorted(available_timezones()):
        yield from around(zone, YEARS, chance)
