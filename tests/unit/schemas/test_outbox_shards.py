"""The sinks of the shards share few partitions, as each makes a batch for each partition of its rows."""

import pytest

from tidegate.schemas.queries.outbox import SHARDS, shard
from tidegate.schemas.wire.partitioner import partition_of

KEYS = [f"dag_{dag}/dataset__2026-01-01T00:00:00+00:00_{run}" for dag in range(100) for run in range(10)]


@pytest.mark.parametrize(("partitions", "pairs"), [(8, 8), (12, 24), (16, 16), (48, 48)])
def test_the_rows_of_a_partition_are_in_few_shards(partitions: int, pairs: int) -> None:
    assert len({(shard(key), partition_of(key.encode(), partitions)) for key in KEYS}) == pairs


def test_all_shards_have_keys() -> None:
    assert {shard(key) for key in KEYS} == set(range(SHARDS))
