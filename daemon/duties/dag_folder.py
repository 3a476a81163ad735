"""The DAG folder: publishes an event for each changed file."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import uuid4

from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.dagfiles.watch import watch
from tidegate.daemon.outage import Retry
from tidegate.events.cloudevents import headers
from tidegate.events.sink import ProducerRecord, Sink
from tidegate.handlers.dag_file_changed import ABSENT_SCANS
from tidegate.schemas.dag import archive_of
from tidegate.schemas.queries import files, installation
from tidegate.schemas.queries.files import KnownFile
from tidegate.schemas.wire.event import DagFileChanged, Kind, encode

SOURCE = "tidegate/watcher"


async def publish_changes(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Publish changes of files in the DAG folder of this host, for ever; retried while Kafka is away."""
    async with Sink(context.settings.kafka_servers, security=context.settings.kafka_security) as sink:

        async def publish(paths: Sequence[str]) -> None:
            await publish_changed(context, sink, paths)

        async def note_read() -> None:
            await context.database.autocommit(installation.note_files_read)

        await watch(context.settings, publish, partial(known_files, context), note_read, task_status=task_status)


async def known_files(context: Context) -> Mapping[str, KnownFile]:
    """All files in the database, by path, except those recorded as deleted."""
    return await context.database.autocommit(files.known, ABSENT_SCANS)


async def publish_changed(context: Context, sink: Sink, paths: Sequence[str]) -> None:
    """Publish an event for each path; retried while Kafka is away."""
    await Retry(context.outages, ends_outages=True).until_done(send_changes, context, sink, paths)


async def send_changes(context: Context, sink: Sink, paths: Sequence[str]) -> None:
    """Publish an event for each path. Raises UnavailableError."""
    topic = context.settings.topic(Kind.DAG_FILE_CHANGED)
    await sink.send_all([change(topic, path, context.database.clock.known()) for path in paths])


def change(topic: str, path: str, at: datetime) -> ProducerRecord:
    """The event that a file may have changed, with a new id. Those of an archive and of its files are in one partition."""
    return ProducerRecord(
        topic=topic,
        key=(archive_of(path) or path).encode(),
        value=encode(DagFileChanged(path=path)),
        headers=headers(Kind.DAG_FILE_CHANGED, event_id=str(uuid4()), source=SOURCE, time=at),
    )
