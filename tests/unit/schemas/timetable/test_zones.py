"""Cron matches around every clock change of every zone, against an oracle that walks minute by minute."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile
from random import Random
from zoneinfo import ZoneInfo

import pytest

from tests.unit.schemas.timetable.oracle import Window
from tests.unit.schemas.timetable.transitions import EXPRESSIONS, LONG, SEED, Change, all_changes, odd_changes, some_changes
from tidegate.schemas.timetable.spec import Cron
from tidegate.schemas.timetable.tick_times import Ticks, ticks_of

COMBINATIONS = 1_000_000 if LONG else 11_000
INSTANTS = 4
AROUND, WALKED = timedelta(hours=16), timedelta(hours=5)
INSTANT = timedelta(microseconds=1)


def instants(change: Change, fires: list[datetime], chance: Random) -> Iterator[datetime]:
    """Near the change, far from it, and where the expression fires."""
    yield change.at + timedelta(seconds=chance.choice((-1, 0, 1, chance.randint(-7300, 7300))))
    yield change.at + timedelta(microseconds=chance.randint(-10 * 3600 * 10**6, 10 * 3600 * 10**6))
    near = [at for at in fires if abs(at - change.at) < timedelta(hours=6)]
    for _ in range(INSTANTS - 2):
        yield chance.choice(near) - timedelta(microseconds=chance.randint(0, 1)) if near else change.at


def differences(change: Change, chance: Random) -> Iterator[tuple[str, ...]]:
    """What the product says of each instant beside what the oracle says; empty where both say the same."""
    window = Window(ZoneInfo(change.zone), change.at - AROUND, change.at + AROUND)
    for expression in EXPRESSIONS:
        fires = [at.replace(tzinfo=UTC) for at in window.fires(expression)]
        ticks = ticks_of(Cron((expression,), change.zone))
        for instant in instants(change, [at.replace(tzinfo=None) for at in fires], chance):
            at = instant.replace(tzinfo=UTC)
            following, passed = fires[bisect_right(fires, at) :][:1], fires[: bisect_right(fires, at)][-1:]
            after, until = ticks.after(at), ticks.until(at)
            right = inside(after, window) == following and inside(until, window) == passed
            yield () if right else (change.zone, expression, str(at), f"{after} {following}", f"{until} {passed}")


def inside(at: datetime | None, window: Window) -> list[datetime]:
    return [at] if at and window.begin <= at.replace(tzinfo=None) <= window.end else []


@pytest.mark.long
@pytest.mark.timeout(7200 if LONG else 900)
def test_cron_matches_as_the_oracle_that_walks_every_minute(capsys: pytest.CaptureFixture[str]) -> None:
    chance = Random(SEED)
    sought = all_changes(chance) if LONG else some_changes(chance)
    done, wrong = 0, list[tuple[str, ...]]()

    for number, change in enumerate(sought):
        found = list(differences(change, chance))
        done, wrong = done + len(found), wrong + [difference for difference in found if difference]
        if LONG and number % 50 == 0:
            with capsys.disabled():
                print(f"\r{done:,} (zone, expression, instant), {len(wrong)} wrong", end="", flush=True)  # noqa: T201 - it takes long
        if done >= COMBINATIONS and not LONG:
            break

    assert wrong == [], f"again with TEST_SEED={SEED}"
    assert done >= COMBINATIONS


def test_going_from_tick_to_tick_finds_each_of_them_forward_and_back() -> None:
    chance = Random(SEED)

    wrong = [(change, expression) for change in odd_changes(chance) for expression in unlike(change)]

    assert wrong == [], f"again with TEST_SEED={SEED}"


def unlike(change: Change) -> Iterator[str]:
    """The expressions for which going from tick to tick near a change finds others than the oracle."""
    window = Window(ZoneInfo(change.zone), change.at - WALKED, change.at + WALKED)
    for expression in EXPRESSIONS:
        ticks = ticks_of(Cron((expression,), change.zone))
        fires = [at.replace(tzinfo=UTC) for at in window.fires(expression)]
        forward = walk(ticks.after, window.begin - INSTANT, window)
        back = walk(partial(before, ticks), window.end + INSTANT, window)
        begin, end = window.begin.replace(tzinfo=UTC) - INSTANT, window.end.replace(tzinfo=UTC)
        walked = [*takewhile(lambda at: inside(at, window), ticks.walk(begin, is_reverse=False))]
        walked_back = [*takewhile(lambda at: inside(at, window), ticks.walk(end, is_reverse=True))]
        if not fires == forward == back[::-1] == walked == walked_back[::-1]:
            yield expression


def before(ticks: Ticks, at: datetime) -> datetime | None:
    return ticks.until(at - INSTANT)


def walk(step: Callable[[datetime], datetime | None], at: datetime, window: Window) -> list[datetime]:
    found, following = [], step(at.replace(tzinfo=UTC))
    while inside(following, window):
        found += inside(following, window)
        following = step(found[-1])
    return found
