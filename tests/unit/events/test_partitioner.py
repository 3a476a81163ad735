"""Keys go to the partitions that Kafka's own clients choose."""

import random

import pytest
from aiokafka.partitioner import murmur2 as of_aiokafka

from tidegate.events import partitioner
from tidegate.events.partitioner import LONGEST_KEPT, murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "signed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_the_hash_is_that_of_the_java_client(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


def test_the_hash_is_that_of_aiokafka_for_every_length() -> None:
    keys = [random.Random(length).randbytes(length) for length in range(100)]

    assert [murmur2(key) for key in keys] == [of_aiokafka(key) for key in keys]


def test_records_without_a_key_take_turns() -> None:
    assert {partition_of(None, 3) for _ in range(3)} == {0, 1, 2}


def test_the_hash_of_a_long_key_is_not_kept() -> None:
    """A producer may have written its payload as the key, and dead letters have the key of their record."""
    key, kept = b"x" * (LONGEST_KEPT + 1), partitioner._kept_hash.cache_info().currsize

    assert partition_of(key, 12) == (of_aiokafka(key) & 0x7FFFFFFF) % 12
    assert partitioner._kept_hash.cache_info().currsize == kept
