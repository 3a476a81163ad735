"""The list of DAGs."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate.daemon.web.pages.dags import without_time
from tidegate.schemas.queries.dag_pages import DagRow

SCHEDULE = {"op": "dataset", "uri": "s://a"}


@pytest.mark.parametrize(
    ("facts", "starts"),
    [
        ({"schedule": SCHEDULE}, "when its datasets come, or by a request"),
        ({}, "by a request"),
        ({"schedule": SCHEDULE, "is_paused": True}, "none while it is paused"),
        ({"is_stale": True}, "none while it is stale"),
        ({"held_since": datetime(2013, 1, 1, tzinfo=UTC)}, "none while it is held"),
    ],
)
def test_what_starts_a_dag_that_no_time_starts(facts: dict[str, Any], starts: str) -> None:
    known: dict[str, Any] = {**dict.fromkeys(DagRow.__struct_fields__), **facts}

    assert without_time(DagRow(**known)) == starts
