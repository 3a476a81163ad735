"""The ids of runs."""

from datetime import datetime, timedelta, timezone
from uuid import NAMESPACE_OID, uuid5

import pytest

from tests.local_zone import local_zone
from tests.shapes import NOW, pending
from tidegate.handlers.runs.run_ids import backfill_run_id, dataset_run_id, manual_run_id, reserved_prefix, scheduled_run_id

AT = datetime(2024, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))


def test_ids_by_time_are_in_utc_wherever_a_daemon_runs() -> None:
    with local_zone("Asia/Tokyo"):
        assert manual_run_id(AT) == "manual__2024-05-01T12:00:00+00:00"
        assert dataset_run_id(7, AT, ()).startswith("dataset__2024-05-01T12:00:00+00:00_")


@pytest.mark.parametrize(("ids", "hashed"), [((5,), "5"), ((5, 6), "5,6"), ((), "run 7")])
def test_the_id_of_a_dataset_run_has_the_first_digits_of_a_uuid_of_its_events(ids: tuple[int, ...], hashed: str) -> None:
    digits = uuid5(NAMESPACE_OID, hashed).hex[:16]

    assert dataset_run_id(7, NOW, [pending(id_) for id_ in ids]) == f"dataset__2024-05-01T12:00:00+00:00_{digits}"


@pytest.mark.parametrize(
    ("run_id", "prefix"),
    [
        (scheduled_run_id(NOW), "scheduled__"),
        (backfill_run_id(NOW), "backfill__"),
        (dataset_run_id(7, NOW, ()), "dataset__"),
        (manual_run_id(NOW), None),
        ("mine", None),
    ],
)
def test_users_may_choose_ids_without_a_prefix_of_later_runs(run_id: str, prefix: str | None) -> None:
    assert reserved_prefix(run_id) == prefix
