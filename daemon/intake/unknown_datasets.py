"""Rejects updates of datasets that no DAG file names, under `TIDEGATE_UNKNOWN_DATASETS=reject`."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from tidegate.daemon.intake.batches import PartitionBatch, ReadRecord, unknown_reason
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import RejectedError
from tidegate.schemas.message import Message
from tidegate.schemas.queries import datasets
from tidegate.schemas.wire.event import DatasetUpdated, Rejection
from tidegate.schemas.wire.openlineage import LineageEvent


async def reject_unknown_datasets(database: Database, batches: Sequence[PartitionBatch]) -> list[PartitionBatch]:
    """The same records, with those of unknown datasets rejected. Raises UnavailableError."""
    named = {uri for batch in batches for read in batch.records for uri in _uris(read.reading)}
    new = sorted(named - database.memory.dataset_ids.keys())
    missing = set(new) - await database.run(datasets.expected, uris=new) if new else set()
    return [_reject_in(batch, missing) for batch in batches] if missing else list(batches)


def _uris(reading: Message[Any] | LineageEvent | RejectedError) -> Collection[str]:
    match reading:
        case Message(body=DatasetUpdated(uri=uri)):
            return (uri,)
        case LineageEvent(updates=updates):
            return [update.uri for update in updates]
        case _:
            return ()


def _reject_in(batch: PartitionBatch, missing: Collection[str]) -> PartitionBatch:
    return msgspec.structs.replace(batch, records=[_reject_unknown(read_record, missing) for read_record in batch.records])


def _reject_unknown(read_record: ReadRecord, missing: Collection[str]) -> ReadRecord:
    """Rejects the record, or only the unknown datasets of an OpenLineage event with several."""
    record, reading = read_record.record, read_record.reading
    found = tuple(dict.fromkeys(uri for uri in _uris(reading) if uri in missing))
    if not found:
        return read_record
    if isinstance(reading, LineageEvent):
        known = tuple(update for update in reading.updates if update.uri not in missing)
        return ReadRecord(record, msgspec.structs.replace(reading, updates=known, refused=found))
    return ReadRecord(record, RejectedError(Rejection.UNKNOWN_DATASET, unknown_reason(found)))
