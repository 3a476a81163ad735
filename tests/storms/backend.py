"""The daemon's side of the scripted cluster: the calls, as lines of JSON over loopback."""

import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import anyio
import msgspec

from tests.storms.content import Content, digest
from tidegate.daemon.spark.contract import Handle, LogChunk, Status, SubmissionSpec
from tidegate.schemas.dag import CommandTask
from tidegate.schemas.error import UnavailableError

ANSWER_S = 10.0


class ClusterBackend:
    """Every daemon sees the same cluster. Like YARN it does not mind being given the same submission twice."""

    name = "command"
    host: str | None = None
    visibility_grace_s = 1.5

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._idle: list[socket.socket] = []

    async def find(self, submission_id: UUID) -> Handle | None:
        found: Handle | None = await self._ask("find", stamp=str(submission_id))
        return found

    async def submit(self, spec: SubmissionSpec) -> Handle:
        run = spec.run
        stamp = str(spec.submission_id)
        begun_at = datetime.now(UTC)  # a daemon may be frozen from here on
        about = {"dag_id": run.dag_id, "run_id": run.run_id, "token": spec.token, "given": _given(spec), **_asked(spec)}
        handle: Handle = await self._ask("submit", stamp=stamp, begun_at=begun_at, **about)
        return handle

    async def confirm(self, recorded: Mapping[UUID, int | None]) -> None:
        """What was submitted runs."""

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        asked = {str(id_): handle["application"] for id_, handle in handles.items()}
        return {UUID(stamp): _status(said) for stamp, said in (await self._ask("status", applications=asked)).items()}

    async def check(self) -> None:
        """It starts whatever it is given."""

    async def running(self) -> Mapping[UUID, Handle]:
        """Nothing runs on this host."""
        return {}

    async def kill(self, handle: Handle) -> None:
        await self._ask("kill", application=handle["application"])

    async def logs(self, handle: Handle, offset: int) -> LogChunk:
        log = str(handle["application"]).encode()
        return LogChunk(content=log[offset:], next_offset=len(log), complete=True)

    async def _ask(self, call: str, **facts: Any) -> Any:
        """Raises UnavailableError when the connection ends without an answer: the cluster may have done it or not."""
        connection = await self._connection()
        try:
            # At once and not by way of the event loop: a daemon that was just found fresh shall not be frozen in between.
            connection.send(msgspec.json.encode({"call": call, **facts}) + b"\n")
            with anyio.fail_after(ANSWER_S):
                answer = await _line(connection)
        except (OSError, EOFError) as error:
            connection.close()
            raise UnavailableError(f"the cluster did not answer: {error!r}", server="the cluster") from error
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return msgspec.json.decode(answer)

    async def _connection(self) -> socket.socket:
        if self._idle:
            return self._idle.pop()
        connection = socket.create_connection(self._address, timeout=ANSWER_S)
        connection.settimeout(0)
        return connection


async def _line(connection: socket.socket) -> bytes:
    answer = b""
    while not answer.endswith(b"\n"):
        await anyio.wait_readable(connection)
        received = connection.recv(65536)
        if not received:
            raise EOFError("the connection ended")
        answer += received
    return answer


def _asked(spec: SubmissionSpec) -> dict[str, Any]:
    """A task that is written `["list", "3"]` returns a list of that length; `["work", "3"]` lasts 3 seconds."""
    match spec.task.argv if isinstance(spec.task, CommandTask) else ():
        case ("list", length):
            return {"returns": list(range(int(length)))}
        case ("work", seconds):
            return {"lasts_s": float(seconds)}
        case _:
            return {}


def _given(spec: SubmissionSpec) -> int | None:
    """The digest of the events of the run; None where they are in a file."""
    events = spec.run.events
    said = (Content(each.source, each.id, each.uri, each.extra, each.occurred_at) for each in events)
    return None if spec.events_of is not None else digest(said)


def _status(said: Mapping[str, Any]) -> Status:
    return msgspec.convert(said, Status)
