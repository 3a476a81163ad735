"""The totals of a backfill that is not created yet."""

from typing import Any

import msgspec
import pytest

from tests.shapes import NOW
from tidegate.daemon.read_model.backfill_preview import Preview, PreviewAction, PreviewDate, preview_of, says


def dates(number: int, action: PreviewAction = "create") -> list[PreviewDate]:
    return [PreviewDate(NOW, action, None, "")] * number


@pytest.mark.parametrize(
    ("found", "facts", "said"),
    [
        (preview_of(dates(3), 2), {}, "3 dates: 3 get a run."),
        (preview_of([*dates(1), *dates(1, "skip")], 2), {}, "2 dates: 1 gets a run, 1 is skipped."),
        (preview_of(dates(10_001, "rerun"), 2), {}, "The first 10,000 dates: 10,000 run again."),
        (preview_of(dates(1), 2), {"not_due": 5}, "1 date: 1 gets a run. 5 dates are not due yet: no run."),
        (preview_of(dates(1), 2), {"not_due": 1}, "1 date: 1 gets a run. 1 date is not due yet: no run."),
        (
            preview_of(dates(1, "rerun"), 2),
            {"consumers": ["b", "c"]},
            "1 date: 1 runs again. Runs of b, c that consumed what is rewritten run again, too.",
        ),
        (
            preview_of(dates(1, "rerun"), 2),
            {"left": ["b"]},
            "1 date: 1 runs again. Runs of b that consumed what is rewritten stay as they are; outlets=cascade runs them again.",
        ),
        (Preview([], more=False), {}, "No date would get a run."),
    ],
)
def test_all_dates_are_counted(found: Preview, facts: dict[str, Any], said: str) -> None:
    assert " ".join(says(msgspec.structs.replace(found, **facts))) == said


def test_only_the_first_dates_are_listed() -> None:
    found = preview_of(dates(3), 2)

    assert (len(found.dates), found.more) == (2, True)
    assert not preview_of(dates(2), 2).more
