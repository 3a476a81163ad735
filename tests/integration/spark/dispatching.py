"""A daemon's dispatcher, step by step, and a backend that takes every submission."""

import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from uuid import UUID, uuid4

import anyio.lowlevel

from tidegate.daemon.context import Context
from tidegate.daemon.duties.dispatch import Dispatcher
from tidegate.daemon.leases import HeldLeases, renew
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import Handle, LogChunk, Phase, Status, SubmissionSpec
from tidegate.daemon.spark.host import host_of
from tidegate.daemon.wake import Signals
from tidegate.schemas.queries.leases import Job, Terms

SILENT = "UPDATE job SET heartbeat_at = heartbeat_at - $2::interval WHERE id = $1"


class Far:
    """A backend that every daemon sees, and that shows nothing of what it was given soon enough."""

    name = "command"
    host: str | None = None
    visibility_grace_s = 0.0

    def __init__(self) -> None:
        self.given: list[UUID] = []
        self.look: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint

    async def find(self, submission_id: UUID) -> Handle | None:  # noqa: ARG002 - it shows nothing
        await self.look()
        return None

    async def submit(self, spec: SubmissionSpec) -> Handle:
        self.given.append(spec.submission_id)
        return {}

    async def confirm(self, recorded: Mapping[UUID, int | None]) -> None:
        """What it was given has begun."""

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        return dict.fromkeys(handles, Status(phase=Phase.RUNNING))

    async def check(self) -> None:
        """It starts whatever it is given."""

    async def running(self) -> Mapping[UUID, Handle]:
        """Nothing runs on this host."""
        return {}

    async def kill(self, handle: Handle) -> None:
        """Nothing runs."""

    async def logs(self, handle: Handle, offset: int) -> LogChunk:  # noqa: ARG002 - there is none
        return LogChunk(content=b"", next_offset=offset, complete=True)


class Daemon:
    """What dispatches, step by step."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.backend = Far()
        job = Job(uuid4(), host_of(settings), os.getpid(), "test", Terms(lease_ttl_s=settings.lease_ttl_s))
        self.context = Context(
            settings=settings,
            database=database,
            held_leases=HeldLeases(job),
            signals=Signals(),
            outages=Outages(),
            backends={"command": self.backend},
        )
        self.dispatcher = Dispatcher(self.context, self.backend)

    async def renew(self) -> None:
        await renew(self.context.database, self.context.held_leases)

    async def lapse(self) -> None:
        """As if its last renewal were so long ago that other daemons take over."""
        leases = self.context.held_leases
        await self.context.database.pool.execute(SILENT, leases.job.id, timedelta(seconds=leases.ttl_s))
        leases._renewed_at -= leases.ttl_s
