"""A daemon of the simulation: the duties as the supervisor starts them, on servers that are simulated or stepped through."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import anyio
import anyio.abc

from tests.simulation.clock import SimulatedDatabase
from tests.simulation.session import Pool
from tests.simulation.spark import Backend
from tests.simulation.step import DUTY
from tidegate.daemon.context import Context
from tidegate.daemon.duties.admit import admit
from tidegate.daemon.duties.clock import clock
from tidegate.daemon.duties.dispatch import dispatch
from tidegate.daemon.duties.observe import observe
from tidegate.daemon.duties.reconsider import reconsider
from tidegate.daemon.duties.relay import relay
from tidegate.daemon.duties.sweep import sweep
from tidegate.daemon.intake.ingest import ingest
from tidegate.daemon.leases import HeldLeases, renew_leases
from tidegate.daemon.outage import Outages
from tidegate.daemon.settings import Settings
from tidegate.daemon.wake import Signals, notify_peers
from tidegate.schemas.queries.leases import Job, Terms
from tidegate.schemas.wire.event import Kind

if TYPE_CHECKING:
    from tests.simulation.world import World

IGNORED = anyio.TASK_STATUS_IGNORED


class Daemon:
    """One job. A daemon that starts again is another one."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.number = number
        self.dead = False
        self._killed = False
        self.address = f"daemon-{number}"
        self.context = self._context()
        self._task: asyncio.Task[None] | None = None
        self._scope = anyio.CancelScope()

    def _context(self) -> Context:
        plan, world = self.world.plan, self.world
        settings = Settings(
            postgres_dsn="",
            kafka_servers=self.address,
            host=self.address,
            lease_ttl_s=plan.ttl_s,
            lease_renew_s=plan.ttl_s * 0.4,
            sweep_s=plan.ttl_s * 0.8,
            parallelism=plan.parallelism,
            runner_silent_s=600.0,
            queued_timeout_s=600.0,
        )
        id_ = UUID(int=world.chance.getrandbits(128), version=4)
        job = Job(id_, self.address, self.number, "simulated", Terms(lease_ttl_s=plan.ttl_s))
        database = SimulatedDatabase(Pool(self, world.scheduler), world.server, world.memory, job.id, self.address)
        backend = Backend(self)
        return Context(settings, database, HeldLeases(job), Signals(), Outages(), {backend.name: backend})

    def duties(self) -> Sequence[tuple[str, Callable[[], Awaitable[Any]]]]:
        """As the supervisor starts them. Duties without a part in the simulation are left out: files, notifications, systemd."""
        context = self.context
        database, held_leases = context.database, context.held_leases
        return [
            (
                "leases",
                partial(
                    renew_leases, database, held_leases, context.settings.lease_renew_s, context.outages, task_status=IGNORED
                ),
            ),
            ("tell", partial(notify_peers, database, held_leases, context.signals)),
            *(
                (duty.__name__, partial(duty, context, task_status=IGNORED))
                for duty in (admit, dispatch, relay, observe, reconsider, clock, sweep)
            ),
            *(
                (f"ingest {kind}", partial(ingest, kind, context, task_status=IGNORED))
                for kind in (Kind.DATASET_UPDATED, Kind.TASK_FINISHED)
            ),
        ]

    def start(self) -> None:
        self._task = self.world.loop.create_task(self._live())

    async def _live(self) -> None:
        with self._scope:
            async with anyio.create_task_group() as tg:
                for name, duty in self.duties():
                    tg.start_soon(_named, name, duty)

    def stop(self) -> None:
        """As SIGTERM: it ends what it has begun, and leaves."""
        self._scope.cancel()

    def kill(self) -> None:
        """As `kill -9`: none of its pending requests is sent."""
        self._killed = not self.ended
        self.dead = True
        self._scope.cancel()
        self.world.scheduler.silence(self.number)

    @property
    def ended(self) -> bool:
        return self._task is None or self._task.done()

    @property
    def broke(self) -> BaseException | None:
        """The error that ended it, unless it was killed."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        error = self._task.exception()
        return None if self._killed else error


async def _named(name: str, duty: Callable[[], Awaitable[Any]]) -> None:
    DUTY.set(name)
    await duty()
