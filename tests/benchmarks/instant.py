"""A backend that has done everything as soon as it is asked: everything but Spark's own time.

python -m tests.benchmarks.instant SOCKET KAFKA_SERVERS     # the cluster: for every attempt it is sent, at once its end
python -m tests.benchmarks.instant SOCKET                   # a daemon, with its settings in TIDEGATE_*, whose tasks run there
"""

import os
import socket
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

import anyio
import uvloop
from anyio.abc import SocketStream

from tests.storms.replace import replace
from tidegate.daemon import log, supervisor
from tidegate.daemon.duties.finishes import finish_id
from tidegate.daemon.settings import read
from tidegate.daemon.spark.contract import Handle, LogChunk, Phase, Status, SubmissionSpec
from tidegate.events import cloudevents, topics
from tidegate.events.sink import ProducerRecord, Sink
from tidegate.schemas.wire.event import Kind, TaskFinished, encode

TOPIC = topics.name("tidegate.", Kind.TASK_FINISHED)
HANDLE: Handle = {}


class InstantBackend:
    """Every daemon sees the same cluster, which is told and does not answer."""

    name = "command"
    host: str | None = None
    visibility_grace_s = 0.0

    def __init__(self, path: str) -> None:
        self._cluster = socket.socket(socket.AF_UNIX)
        self._cluster.connect(path)

    async def find(self, submission_id: UUID) -> Handle | None:  # noqa: ARG002 - what was not recorded is told once more
        return None

    async def submit(self, spec: SubmissionSpec) -> Handle:
        self._cluster.sendall(f"{spec.submission_id} {spec.token} {spec.run.dag_id} {spec.run.run_id}\n".encode())
        return HANDLE

    async def confirm(self, recorded: Mapping[UUID, int | None]) -> None:
        """All has ended."""

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        return dict.fromkeys(handles, Status(phase=Phase.RUNNING, heartbeat_age_s=0.0))

    async def check(self) -> None:
        """It starts whatever it is given."""

    async def running(self) -> Mapping[UUID, Handle]:
        """Nothing runs on this host."""
        return {}

    async def kill(self, handle: Handle) -> None:
        """Nothing runs."""

    async def logs(self, handle: Handle, offset: int) -> LogChunk:  # noqa: ARG002 - there is none
        return LogChunk(content=b"", next_offset=offset, complete=True)


async def cluster(path: str, servers: str) -> None:
    """For ever. What comes while Kafka is at work goes together."""
    listener = await anyio.create_unix_listener(path)
    async with Sink(servers) as sink:
        await sink.connect()
        await listener.serve(lambda stream: _answer(stream, sink))


async def _answer(stream: SocketStream, sink: Sink) -> None:
    rest = b""
    async with stream:
        try:
            while True:
                *lines, rest = (rest + await stream.receive(1 << 20)).split(b"\n")
                await sink.send_all([_end(*line.decode().split(" ")) for line in lines])
        except anyio.EndOfStream:
            return


def _end(submission_id: str, token: str, dag_id: str, run_id: str) -> ProducerRecord:
    identity = finish_id(UUID(submission_id))
    return ProducerRecord(
        topic=TOPIC,
        key=topics.run_key(dag_id, run_id).encode(),
        value=encode(TaskFinished(submission_id=UUID(submission_id), token=token, outcome="succeeded")),
        headers=cloudevents.headers(Kind.TASK_FINISHED, event_id=identity.id, source=identity.source, time=datetime.now(UTC)),
    )


def main(path: str, servers: str | None = None) -> None:
    if servers:
        anyio.run(cluster, path, servers, backend_options={"loop_factory": uvloop.new_event_loop})
        return
    settings = read(os.environ)
    log.configure(settings.log_format)
    backend = InstantBackend(path)
    replace(supervisor, "open_backends", lambda _: {backend.name: backend})
    supervisor.main(settings)


if __name__ == "__main__":
    main(*sys.argv[1:])
