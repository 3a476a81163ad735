"""Fetches the records of one partition where the Kafka client fails for all that it reads.

It does at a header key that is not UTF-8, which brokers accept: in the records that are returned, invalid bytes of a key are
backslash escapes. And it does at a batch that cannot be decoded at all, which is told here with its place.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.errors import CorruptRecordException, NoError, UnsupportedCodecError, for_code
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

_LENGTH = struct.Struct(">qi")
"""The start of a batch: its first offset, and the number of bytes that follow."""

_MAGIC_AT = 16
_WITH_HEADERS = 2

FAILURES = (UnicodeDecodeError, CorruptRecordException, UnsupportedCodecError)
"""What the client raises for all partitions because of the records of one."""


class BatchError(Exception):
    """The next batch cannot be decoded, which the message explains. `next_offset` follows it."""

    def __init__(self, reason: str, next_offset: int) -> None:
        super().__init__(reason)
        self.next_offset = next_offset


async def fetch(
    client: AIOKafkaClient, tp: TopicPartition, offset: int, *, max_bytes: int, max_records: int
) -> "Sequence[ConsumerRecord[bytes, bytes]]":
    """The next records of a partition from `offset` on; none if there are none, or if its leader refuses.

    Raises KafkaError, and BatchError if the first of them cannot be decoded.
    """
    found: Sequence[ConsumerRecord[bytes, bytes]] = ()
    before = -1
    while not found and offset > before:
        before, records = offset, await _fetch(client, tp, offset, max_bytes)
        if records is not None:
            found = _until_failure(islice(records, max_records))
            offset = records.next_fetch_offset  # behind aborted transactions and their markers
    return found


def _until_failure(records: "Iterator[ConsumerRecord[bytes, bytes]]") -> "Sequence[ConsumerRecord[bytes, bytes]]":
    """Those before a batch that cannot be decoded, if there are any."""
    found: list[ConsumerRecord[bytes, bytes]] = []
    try:
        found.extend(records)
    except BatchError:
        if not found:
            raise
    return found


async def _fetch(client: AIOKafkaClient, tp: TopicPartition, offset: int, max_bytes: int) -> PartitionRecords | None:
    leader = client.cluster.leader_for_partition(tp)
    if leader is None or leader == -1:
        return None
    request = FetchRequest(0, 0, max_bytes, READ_COMMITTED, [(tp.topic, [(tp.partition, offset, max_bytes)])])
    response = await client.send(leader, request)
    ((_, ((_, code, _, *found),)),) = response.topics
    if for_code(code) is not NoError:
        return None
    aborted = found[2] if response.API_VERSION >= 11 else found[-2]
    return PartitionRecords(tp, _Batches(found[-1]), aborted, offset, None, None, False, READ_COMMITTED)  # noqa: FBT003


class _Batches:
    """The batches of a response, as `PartitionRecords` reads them."""

    def __init__(self, content: bytes) -> None:
        self._batches = _slices(content)
        self._next = next(self._batches, None)

    def has_next(self) -> bool:
        return self._next is not None

    def next_batch(self) -> Any:
        content, self._next = self._next or b"", next(self._batches, None)
        if content[_MAGIC_AT] < _WITH_HEADERS:
            return MemoryRecords(content).next_batch()
        batch = _DefaultRecordBatchPy(content)
        if not batch.validate_crc():
            raise BatchError("their checksum is wrong", batch.next_offset)
        try:
            batch._maybe_uncompress()
        except UnsupportedCodecError as error:
            raise BatchError(str(error), batch.next_offset) from error
        batch._buffer = _Lenient(batch._buffer)
        return batch


def _slices(content: bytes) -> Iterator[bytes]:
    """The whole batches; the last one of a response may be cut."""
    start = 0
    while start + _LENGTH.size <= len(content):
        end = start + _LENGTH.size + _LENGTH.unpack_from(content, start)[1]
        if end > len(content):
            return
        yield content[start:end]
        start = end


class _Lenient(bytearray):
    """A buffer whose slices decode to text in any case."""

    def __getitem__(self, key: Any) -> Any:
        item = super().__getitem__(key)
        return _Lenient(item) if isinstance(item, bytearray) else item

    def decode(self, encoding: str = "utf-8", _errors: str = "strict") -> str:
        return super().decode(encoding, "backslashreplace")
