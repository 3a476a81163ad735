"""How many runs start: a run that others wait for has a slot."""

from collections.abc import Sequence
from datetime import datetime

import pytest

from tests.shapes import NOW, run_view
from tests.unit.handlers.backfills.test_dates import DAY, backfill
from tidegate.handlers.backfills.slots import Slots, slots_of, startable_retries, startable_runs
from tidegate.schemas.backfill import BackfillActivity, Retry


def day(number: int) -> datetime:
    return NOW + number * DAY


@pytest.mark.parametrize(
    ("active", "slots"),
    [
        pytest.param(BackfillActivity(), Slots(3), id="none running"),
        pytest.param(BackfillActivity(running=2), Slots(1), id="some running"),
        pytest.param(BackfillActivity(running=5), Slots(0), id="a lowered limit"),
        pytest.param(BackfillActivity(3, 2, day(4)), Slots(0, 2, day(4)), id="two wait"),
        pytest.param(BackfillActivity(4, 2, day(4)), Slots(0, 1, day(4)), id="a lowered limit, and two wait"),
        pytest.param(BackfillActivity(6, 2, day(4)), Slots(0, 0, day(4)), id="a limit lowered below the runs that do not wait"),
    ],
)
def test_waiting_runs_occupy_no_slot_of_runs_before_them(active: BackfillActivity, slots: Slots) -> None:
    assert slots_of(backfill(max_active_runs=3), active) == slots


@pytest.mark.parametrize(
    ("slots", "most", "of_step"),
    [
        pytest.param(Slots(2), 3, Slots(2), id="fewer"),
        pytest.param(Slots(3), 2, Slots(2), id="more"),
        pytest.param(Slots(3, 2, day(4)), 2, Slots(2, 0, day(4)), id="none before a waiting one"),
        pytest.param(Slots(1, 2, day(4)), 2, Slots(1, 1, day(4)), id="one before a waiting one"),
    ],
)
def test_a_step_starts_a_limited_number_of_runs(slots: Slots, most: int, of_step: Slots) -> None:
    assert slots.at_most(most) == of_step


@pytest.mark.parametrize(
    ("slots", "queued", "started"),
    [
        pytest.param(Slots(2), [1, 2, 3], [1, 2], id="free slots"),
        pytest.param(Slots(0), [1], [], id="none free"),
        pytest.param(Slots(0, 2, day(4)), [1, 2, 3], [1, 2], id="no more than wait"),
        pytest.param(Slots(0, 2, day(4)), [3, 4, 5], [3], id="only before a waiting one"),
        pytest.param(Slots(1, 1, day(4)), [3, 5, 6], [3], id="one after it would take a free slot"),
        pytest.param(Slots(1, 1, day(4)), [5, 6], [5], id="a free slot after it"),
    ],
)
def test_runs_start_in_order(slots: Slots, queued: Sequence[int], started: Sequence[int]) -> None:
    runs = [run_view(number, logical_date=day(number)) for number in queued]
    retries = {number: Retry(number, is_whole=False, logical_date=day(number)) for number in queued}

    assert [run.id for run in startable_runs(slots, runs)] == started
    assert list(startable_retries(slots, 0, retries)) == started


def test_retries_come_after_queued_runs() -> None:
    retries = {number: Retry(number, is_whole=False, logical_date=day(number)) for number in (1, 2)}

    assert list(startable_retries(Slots(2), 1, retries)) == [1]
