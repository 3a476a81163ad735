"""A scripted cluster: `python -m tests.storms.cluster SCRIPT`, where SCRIPT is the JSON of a `Script`.

It takes what it is given, twice where it is given twice, and writes everything that happened into its journal. It is slow at
times, loses requests and answers, and does not always tell Kafka that an application ended.
"""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import msgspec

from tidegate.events import Publisher
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.wire.event import FINISH_SOURCE


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster does. Shares are of 1, times in seconds."""

    seed: int
    journal: str
    ready: str
    kafka_servers: str
    topic_prefix: str
    accept_s: tuple[float, float] = (0.002, 0.03)
    slow_share: float = 0.03
    slow_s: float = 0.4
    request_lost_share: float = 0.02
    answer_lost_share: float = 0.02
    untold_share: float = 0.15
    unknown_share: float = 0.01
    run_s: tuple[float, float] = (0.05, 0.3)
    fail_share: float = 0.1


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the journal. `told`: Kafka acknowledged the news of the end. `begun_at`: when the daemon began a submit.

    `given` is the digest of the events of its run; None where the daemon has them in a file.
    """

    what: str
    at: datetime
    stamp: str
    application: str = ""
    outcome: str = ""
    told: bool = False
    begun_at: datetime | None = None
    given: int | None = None


class Application:
    """One execution of what was submitted."""

    def __init__(self, name: str, stamp: str, facts: Mapping[str, Any]) -> None:
        self.name = name
        self.stamp = stamp
        self.token: str = facts["token"]
        self.dag_id: str = facts["dag_id"]
        self.run_id: str = facts["run_id"]
        self.returns = facts.get("returns")
        self.lasts_s: float | None = facts.get("lasts_s")
        self.phase = "running"
        self.started_at = datetime.now(UTC)
        self.finished_at: datetime | None = None

    def facts(self) -> dict[str, Any]:
        ran = {"started_at": self.started_at, "finished_at": self.finished_at, "heartbeat_age_s": 0.0}
        return {"phase": self.phase, "result": self.returns if self.phase == "succeeded" else None, **ran}


class LostError(Exception):
    """The connection ends here, without an answer."""


class Cluster:
    """All applications by name, and by stamp."""

    def __init__(self, script: Script, publisher: Publisher, journal: TextIOWrapper) -> None:
        self.script = script
        self.publisher = publisher
        self.journal = journal
        self.random = Random(script.seed)
        self.applications: dict[str, Application] = {}
        self.by_stamp: dict[str, Application] = {}
        self.running: set[asyncio.Task[None]] = set()
        self.ends: asyncio.Semaphore | None = None
        """None: each application ends in its time."""

    def write(self, what: str, stamp: str, **facts: Any) -> None:
        entry = Entry(what=what, at=datetime.now(UTC), stamp=stamp, **facts)
        self.journal.write(msgspec.json.encode(entry).decode() + "\n")
        self.journal.flush()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection; its requests one after the other."""
        with suppress(ConnectionError, LostError):
            while request := await reader.readline():
                answer = await self.answer(msgspec.json.decode(request))
                writer.write(msgspec.json.encode(answer) + b"\n")
                await writer.drain()
        writer.close()

    async def answer(self, request: dict[str, Any]) -> Any:
        match request:
            case {"call": "submit", "stamp": stamp, **facts}:
                return await self.submit(stamp, facts)
            case {"call": "find", "stamp": stamp}:
                found = self.by_stamp.get(stamp)
                return None if found is None else {"application": found.name}
            case {"call": "status", "applications": asked}:
                return {stamp: self.status(name) for stamp, name in asked.items()}
            case {"call": "kill", "application": name}:
                return self.kill(name)
            case {"call": "hold", "but": but}:
                return self.hold(but)
            case _:
                raise LostError

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    async def submit(self, stamp: str, facts: Mapping[str, Any]) -> dict[str, str]:
        script = self.script
        if self.chance(script.request_lost_share):
            self.write("request_lost", stamp)
            raise LostError
        is_slow, is_lost = self.chance(script.slow_share), self.chance(script.answer_lost_share)
        await asyncio.sleep(script.slow_s if is_slow else self.random.uniform(*script.accept_s))
        application = Application(f"application_{len(self.applications) + 1:06}", stamp, facts)
        self.applications[application.name] = self.by_stamp[stamp] = application
        begun_at, given = datetime.fromisoformat(facts["begun_at"]), facts["given"]
        self.write("accepted", stamp, application=application.name, begun_at=begun_at, given=given)
        task = asyncio.create_task(self.run(application))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        if is_lost:
            self.write("answer_lost", stamp, application=application.name)
            raise LostError
        return {"application": application.name}

    def status(self, name: str) -> dict[str, Any]:
        if name not in self.applications or self.chance(self.script.unknown_share):
            return {"phase": "unknown"}
        return self.applications[name].facts()

    def kill(self, name: str) -> bool:
        """Whether it is killed; one that has ended stays as it is."""
        application = self.applications[name]
        if application.phase == "running":
            self.end(application, "killed")
            self.write("ended", application.stamp, application=name, outcome="killed")
        return application.phase == "killed"

    def hold(self, but: int | None) -> None:
        """From now on only `but` more applications end. None: all may end again."""
        self.ends = self.ends or asyncio.Semaphore(0)
        for _ in range(len(self.running) if but is None else but):
            self.ends.release()
        if but is None:
            self.ends = None

    def end(self, application: Application, phase: str) -> None:
        application.phase = phase
        application.finished_at = datetime.now(UTC)

    async def run(self, application: Application) -> None:
        """How it ends is a matter of its stamp alone, so that it does not depend on the order of things."""
        run_s = self.random.uniform(*self.script.run_s)
        await asyncio.sleep(run_s if application.lasts_s is None else application.lasts_s)
        if self.ends is not None:
            await self.ends.acquire()
        if application.phase == "killed":
            return
        self.end(application, "failed" if int(UUID(application.stamp)) % 1000 < self.script.fail_share * 1000 else "succeeded")
        told = not self.chance(self.script.untold_share) and await self.tell(application)
        self.write("ended", application.stamp, application=application.name, outcome=application.phase, told=told)

    async def tell(self, application: Application) -> bool:
        """As a driver would: it tries for a moment, then leaves it to the observation by daemons."""
        try:
            await self.publisher.task_finished(
                UUID(application.stamp),
                "failed" if application.phase == "failed" else "succeeded",
                dag_id=application.dag_id,
                run_id=application.run_id,
                token=application.token,
                finished_at=application.finished_at,
                result=None if application.phase == "failed" else application.returns,
                event_id=application.stamp,
            )
        except UnavailableError:
            return False
        return True


async def main(script: Script) -> None:
    publisher = Publisher(script.kafka_servers, source=FINISH_SOURCE, topic_prefix=script.topic_prefix, timeout_s=3)
    with Path(script.journal).open("a") as journal:
        async with publisher:
            cluster = Cluster(script, publisher, journal)
            server = await asyncio.start_server(cluster.serve, "127.0.0.1", 0)
            host, port = server.sockets[0].getsockname()
            draft = Path(f"{script.ready}.draft")
            draft.write_text(f"{host}:{port}")
            draft.rename(script.ready)
            async with server:
                await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Script)))
