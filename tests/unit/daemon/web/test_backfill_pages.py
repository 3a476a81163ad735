"""What the pages of backfills decide."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.daemon.backfill_rows import row
from tidegate.daemon.web.fields import Fields
from tidegate.daemon.web.pages.backfill import actions_of
from tidegate.daemon.web.pages.backfill_limits import DEFAULTS, changed_limits, limits_of, texts_of
from tidegate.daemon.web.pages.backfill_new import field_of, spec_of
from tidegate.schemas.backfill import MAX_LISTED_DATES
from tidegate.schemas.error import NotFoundError, RequestError


@pytest.mark.parametrize(
    ("given", "actions"),
    [
        ({}, ["pause", "change", "cancel"]),
        ({"state": "planned", "failed": 1}, ["pause", "retry", "change", "cancel"]),
        ({"state": "paused"}, ["resume", "change", "cancel"]),
        ({"state": "cancelling"}, ["cancel"]),
        ({"state": "cancelling", "kills": True}, []),
        ({"state": "failed", "failed": 1}, ["retry", "change", "delete"]),
        ({"state": "success"}, ["change", "delete"]),
        ({"state": "success", "deleted": True}, []),
    ],
)
def test_a_state_has_its_actions(given: dict[str, Any], actions: list[str]) -> None:
    assert actions_of(row(**given)) == actions


@pytest.mark.parametrize(
    ("error", "field"),
    [
        (NotFoundError("there is no DAG 'reverse --date'"), ""),
        (RequestError("the conf does not fit", field="conf"), "conf"),
        (RequestError("list each date", field="logical_dates"), "dates"),
        (RequestError("has dates of the same time", field="start_date"), "start"),
    ],
)
def test_a_rejection_has_a_field(error: RequestError, field: str) -> None:
    assert field_of(error) == field


def test_a_list_of_dates_is_a_backfill() -> None:
    fields = Fields({"dag": "daily", "dates": "2013-01-05 2013-01-02", "outlets": "none", "is_reverse": "true"})

    spec = spec_of(fields)

    assert spec is not None
    assert (spec.start_date.day, spec.end_date.day, len(spec.logical_dates or ())) == (2, 5, 2)
    assert (spec.outlets, spec.is_reverse, spec.reprocess, spec.max_active_runs) == ("none", True, "none", None)


def test_too_many_dates_are_no_backfill() -> None:
    start = datetime(2000, 1, 1, tzinfo=UTC)
    dates = " ".join((start + timedelta(hours=hour)).isoformat() for hour in range(MAX_LISTED_DATES + 1))
    fields = Fields({"dag": "daily", "dates": dates})

    assert spec_of(fields) is None
    assert "at most 10000 dates" in fields.problems["dates"]


def test_limits_are_written_as_they_are_shown() -> None:
    limits = {**DEFAULTS, "share": 0.25, "pool": "few"}

    assert limits_of(Fields(texts_of(limits))) == limits
    assert texts_of(limits)["share"] == "25"


def test_only_changed_limits_change_and_an_empty_field_has_the_default() -> None:
    shown = texts_of({**DEFAULTS, "share": 0.25, "max_failed_runs": 3})

    changed = changed_limits(Fields({**shown, "share": "", "max_failed_runs": "", "pool": "few"}), shown)

    assert changed == {"share": None, "max_failed_runs": 0, "pool": "few"}


def test_an_existing_backfill_has_a_number_of_active_runs() -> None:
    shown = texts_of({**DEFAULTS, "max_active_runs": 3})
    fields = Fields({**shown, "max_active_runs": ""})

    changed_limits(fields, shown)

    assert fields.problems == {"max_active_runs": "write a whole number from 1 to 1000"}
