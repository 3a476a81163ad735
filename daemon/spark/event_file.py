"""The events of a run that are too many for `spec.json`: a file of JSON lines beside it."""

import os
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID, uuid4

import msgspec

from tidegate.daemon.spark.regular_file import DamagedError, open_regular
from tidegate.daemon.spark.spool import Job, Spool
from tidegate.schemas.run import ConsumedEvent

NAME = "events.jsonl"

_encode = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder(ConsumedEvent).decode


def create(root: Path, submission_id: UUID) -> Path:
    """An empty file for the events of a submission, which its backend takes. It is removed with temporary files."""
    folder = Spool(root, submission_id).work.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{NAME}.{uuid4().hex}"
    path.touch(mode=0o600, exist_ok=False)
    return path


def append(path: Path, events: Sequence[msgspec.Struct]) -> None:
    """Add events with the fields of `ConsumedEvent`."""
    with path.open("ab") as file:
        file.write(_encode(events))


def take(path: Path, spool: Spool) -> None:
    """Move the file to the spool of its submission, before the job is stored there."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    path.replace(spool.path / NAME)


def complete(spool: Spool, job: Job) -> Job:
    """The job with the events of its run. Raises DamagedError for a file that is not as it was written."""
    if job.spec.events_of is None:
        return job
    path = spool.path / NAME
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            events = tuple(map(_decode, file))
    except (FileNotFoundError, ValueError, RecursionError) as error:
        raise DamagedError(path, f"cannot be read: {error}") from error
    run = msgspec.structs.replace(job.spec.run, events=events)
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, run=run))
