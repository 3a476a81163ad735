"""How often events of a dataset come, and when the next one is late."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.queries.blocks import Connection
from tidegate.schemas.queries.dataset_pages import Rhythm, rhythms_of
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.memory import Memory

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
HOUR, DAY = 3600.0, 86_400.0
EVENTS = """
WITH dataset AS (INSERT INTO dataset (uri) VALUES ('r://x') RETURNING id)
INSERT INTO dataset_event (id, dataset_id, source, event_id, extra, occurred_at, received_at, arrival_id)
SELECT nextval('dataset_event_id_seq'), dataset.id, '', '', '{}', at, at, 1 FROM dataset, unnest($1::timestamptz[]) AS at
"""


@pytest.mark.parametrize(
    ("seconds", "interval_s", "longest_s"),
    [
        pytest.param([0, 2, 7], None, None, id="three in a burst"),
        pytest.param([DAY * day for day in range(8)], None, None, id="seven intervals"),
        pytest.param([DAY * day for day in range(9)], DAY, DAY, id="eight intervals"),
        pytest.param([HOUR * hour for hour in range(24)], None, None, id="less than a day"),
        pytest.param([HOUR * hour for hour in range(25)], HOUR, HOUR, id="a day"),
        pytest.param([DAY * day + second for day in range(9) for second in (0, 5, 10)], DAY - 10, DAY - 10, id="bursts"),
        pytest.param([5.0 * number for number in range(300)], None, None, id="a stream"),
        pytest.param([*(DAY * day for day in range(9)), DAY * 12], DAY * 12 / 9, DAY * 4, id="a longer one"),
    ],
)
async def test_a_rhythm_needs_enough_intervals_over_a_day(
    connection: Connection, seconds: list[float], interval_s: float | None, longest_s: float | None
) -> None:
    db = Db(connection, Memory(), datetime.now(UTC))
    times = [BEGIN + timedelta(seconds=second) for second in seconds]
    async with connection.transaction(), db.undone():
        await db.execute(EVENTS, times)

        found = await rhythms_of(db, ["r://x"])

    assert found == {"r://x": Rhythm(times[-1], interval_s, longest_s)}
    assert found["r://x"].is_late(times[-1] + timedelta(days=99)) == (interval_s is not None)
