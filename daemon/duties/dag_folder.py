"""The DAG folder: publishes an event for each changed file, and parses the files that events name."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import uuid4

import anyio
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.dagfiles.parse import Parser
from tidegate.daemon.dagfiles.watch import watch
from tidegate.daemon.outage import Retry
from tidegate.daemon.settings import Settings
from tidegate.events.cloudevents import headers
from tidegate.events.sink import OutMessage, Sink
from tidegate.handlers.dag_file_changed import ABSENT_SCANS
from tidegate.schemas.dag import DagSpec, ParsedFile
from tidegate.schemas.message import Message
from tidegate.schemas.queries import files
from tidegate.schemas.receiver import EmailReceiver
from tidegate.schemas.wire.event import DagFileChanged, Kind, encode

log = structlog.get_logger()

SOURCE = "tidegate/watcher"


async def parse_files(
    settings: Settings, parser: Parser, messages: Sequence[Message[DagFileChanged]]
) -> Sequence[Message[ParsedFile]]:
    """Parse each file that the events name once, before the transaction of the batch begins."""
    parsed: dict[str, ParsedFile] = {}

    async def parse(path: str) -> None:
        parsed[path] = await parser.parse(path)

    async with anyio.create_task_group() as tg:
        for path in {message.body.path for message in messages}:
            tg.start_soon(parse, path)
    _warn_without_mail(settings, [spec for file in parsed.values() for spec in file.dags])
    return [Message(body=parsed[message.body.path], at=message.at, id=message.id) for message in messages]


def _warn_without_mail(settings: Settings, specs: Sequence[DagSpec]) -> None:
    """Warn of DAGs with mail receivers while no mail server is configured."""
    for spec in () if settings.smtp_host else specs:
        receivers = (callback.receiver for part in (spec, *spec.tasks) for callback in part.callbacks)
        if any(isinstance(receiver, EmailReceiver) for receiver in receivers):
            log.warning("mail_not_configured", dag_id=spec.dag_id, hint="its notifications by mail fail; set TIDEGATE_SMTP_HOST")


async def publish_changes(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Publish changes of files in the DAG folder of this host, for ever; retried while Kafka is away."""
    async with Sink(context.settings.kafka_servers) as sink:

        async def publish(paths: Sequence[str]) -> None:
            await Retry(context.outages).until_done(_send, context, sink, paths)

        await watch(context.settings, publish, partial(known_files, context), task_status=task_status)


async def known_files(context: Context) -> Mapping[str, str | None]:
    """The digests of all files in the database, by path, except those recorded as deleted."""
    return await context.database.autocommit(files.digests, ABSENT_SCANS)


async def _send(context: Context, sink: Sink, paths: Sequence[str]) -> None:
    topic = context.settings.topic(Kind.DAG_FILE_CHANGED)
    await sink.send_all([change(topic, path, context.database.clock.known()) for path in paths])


def change(topic: str, path: str, at: datetime) -> OutMessage:
    """The event that a file may have changed, with a new id."""
    return OutMessage(
        topic=topic,
        key=path.encode(),
        value=encode(DagFileChanged(path=path)),
        headers=headers(Kind.DAG_FILE_CHANGED, event_id=str(uuid4()), source=SOURCE, time=at),
    )
