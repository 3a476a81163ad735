"""A batch whose bytes have changed, as a fault of the broker's disk leaves it."""

import pytest
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from tidegate.events.undecodable import BatchError, _Batches


def batch(base_offset: int, *values: bytes) -> bytearray:
    builder = _DefaultRecordBatchBuilderPy(
        2, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=0, batch_size=1000
    )
    for number, value in enumerate(values):
        builder.append(number, timestamp=None, key=None, value=value, headers=[])
    content = bytearray(builder.build())
    content[:8] = base_offset.to_bytes(8, "big")  # by the broker; the checksum leaves it out
    return content


def test_a_wrong_checksum_is_told_with_the_offset_that_follows() -> None:
    damaged = batch(5, b"a", b"b")
    damaged[-2] ^= 1
    batches = _Batches(bytes(batch(3, b"x", b"y") + damaged + batch(7, b"z")))

    assert [record.value for record in batches.next_batch()] == [b"x", b"y"]
    with pytest.raises(BatchError, match="their checksum is wrong") as caught:
        batches.next_batch()
    assert caught.value.next_offset == 7
    assert [record.value for record in batches.next_batch()] == [b"z"]
