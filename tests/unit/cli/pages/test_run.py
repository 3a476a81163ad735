"""The page of a run."""

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.daemon.cli.pages.run import started
from tidegate.schemas.queries.run_pages import RunRow

DUE = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("run_type", "backfill_id", "delay_s", "expected"),
    [
        ("scheduled", None, 90.0, "2013-01-01 00:01:30Z, 1m30s after it was due"),
        ("scheduled", 7, 90.0, "2013-01-01 00:01:30Z"),
        ("backfill", None, 90.0, "2013-01-01 00:01:30Z"),
        ("scheduled", None, None, None),
    ],
)
def test_only_a_run_outside_of_backfills_has_a_delay(
    run_type: str, backfill_id: int | None, delay_s: float | None, expected: str | None
) -> None:
    row = RunRow(
        dag_id="d",
        run_id="r",
        run_type=run_type,
        state="running",
        run_after=DUE,
        created_at=DUE,
        start_date=None if delay_s is None else DUE + timedelta(seconds=delay_s),
        end_date=None,
        version=1,
        unfinished=1,
        tasks=1,
        logical_date=DUE,
        data_interval_start=None,
        data_interval_end=None,
        schedule_delay_s=delay_s,
        backfill_id=backfill_id,
    )

    assert started(row) == expected
