"""Datasets that nobody has named yet, where the settings have it that their updates are not taken."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from tidegate.daemon.intake.batches import Arrived, Stretch, unknown
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import RejectedError
from tidegate.schemas.message import Message
from tidegate.schemas.queries import datasets
from tidegate.schemas.wire.event import DatasetUpdated, Rejection
from tidegate.schemas.wire.openlineage import LineageEvent


async def only_known(database: Database, stretches: Sequence[Stretch]) -> list[Stretch]:
    """The same records, those of unknown datasets to be put aside. Raises UnavailableError."""
    named = {uri for stretch in stretches for _, reading in stretch.arrived for uri in _uris(reading)}
    new = sorted(named - database.memory.dataset_ids.keys())
    missing = set(new) - await database.run(datasets.expected, uris=new) if new else set()
    return [_without(stretch, missing) for stretch in stretches] if missing else list(stretches)


def _uris(reading: Message[Any] | LineageEvent | RejectedError) -> Collection[str]:
    match reading:
        case Message(body=DatasetUpdated(uri=uri)):
            return (uri,)
        case LineageEvent(updates=updates):
            return [update.uri for update in updates]
        case _:
            return ()


def _without(stretch: Stretch, missing: Collection[str]) -> Stretch:
    return msgspec.structs.replace(stretch, arrived=[_judged(arrived, missing) for arrived in stretch.arrived])


def _judged(arrived: Arrived, missing: Collection[str]) -> Arrived:
    """Of several datasets that a run wrote, those that are known are updated."""
    record, reading = arrived
    found = tuple(dict.fromkeys(uri for uri in _uris(reading) if uri in missing))
    if not found:
        return arrived
    if isinstance(reading, LineageEvent):
        known = tuple(update for update in reading.updates if update.uri not in missing)
        return Arrived(record, msgspec.structs.replace(reading, updates=known, refused=found))
    return Arrived(record, RejectedError(Rejection.UNKNOWN_DATASET, unknown(found)))
