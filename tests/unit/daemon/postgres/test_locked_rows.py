"""For how long transactions for many skip locked rows."""

import pytest

from tidegate.daemon.postgres.locked_rows import LASTS_S, LockedRows
from tidegate.schemas.error import LockedError


def test_rows_are_skipped_for_a_while_after_the_last_one_was_met() -> None:
    now = 0.0
    rows = LockedRows(lambda: now)

    rows.meet("of a request", for_many=False)
    before = rows.are_met
    rows.meet("a lock timeout", for_many=True)
    now = LASTS_S - 1
    rows.meet("rows are left out", for_many=True)
    now += LASTS_S - 1
    during = rows.are_met
    now += 1

    assert (before, during, rows.are_met) == (False, True, False)


def test_the_last_try_raises_what_is_no_outage() -> None:
    with pytest.raises(LockedError, match="`tidegate doctor` names it: a lock timeout"):
        LockedRows().meet("a lock timeout", for_many=False, is_last=True)
