"""A claim of a daemon whose leases expired belongs to another: only one of them submits it."""

import os
from collections.abc import AsyncIterator, Mapping
from uuid import UUID, uuid4

import anyio
import pytest

from tests.integration.cli.history import HOST, History
from tests.servers import MakeSettings
from tidegate.daemon.context import Context
from tidegate.daemon.duties.dispatch import Dispatcher
from tidegate.daemon.leases import HeldLeases, renew
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import Handle, LogChunk, Phase, Status, SubmissionSpec
from tidegate.daemon.wake import Signals
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries.leases import Job, Terms

FILE = 'from tidegate import Dag, Dataset\nwith Dag("d", schedule=Dataset("s://a")) as dag: dag.command("c", ["true"])\n'
TTL_S = 0.5


class Far:
    """A backend that every daemon sees, and that shows nothing of what it was given soon enough."""

    name = "command"
    host: str | None = None
    visibility_grace_s = 0.0

    def __init__(self) -> None:
        self.given: list[UUID] = []
        self.look_s = 0.0

    async def find(self, submission_id: UUID) -> Handle | None:  # noqa: ARG002 - it shows nothing
        await anyio.sleep(self.look_s)
        return None

    async def submit(self, spec: SubmissionSpec) -> Handle:
        self.given.append(spec.submission_id)
        return {}

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        return dict.fromkeys(handles, Status(phase=Phase.RUNNING))

    async def kill(self, handle: Handle) -> None:
        """Nothing runs."""

    async def logs(self, handle: Handle, offset: int) -> LogChunk:  # noqa: ARG002 - there is none
        return LogChunk(content=b"", next_offset=offset, complete=True)


class Daemon:
    """What dispatches, step by step."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.backend = Far()
        self.context = Context(
            settings=settings,
            database=database,
            held_leases=HeldLeases(Job(uuid4(), HOST, os.getpid(), "test", Terms(lease_ttl_s=settings.lease_ttl_s))),
            signals=Signals(),
            outages=Outages(),
            backends={"command": self.backend},
        )
        self.dispatcher = Dispatcher(self.context, self.backend)

    async def renew(self) -> None:
        await renew(self.context.database, self.context.held_leases)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with connect(dsn) as database:
        yield database


@pytest.fixture
async def daemon(settings: MakeSettings, database: Database) -> Daemon:
    """One, with a task that waits to be submitted."""
    daemon = Daemon(settings(host=HOST, lease_ttl_s=TTL_S), database)
    await daemon.renew()
    await History(database).file(FILE)
    await History(database).updated("s://a")
    await daemon.context.submit_messages([TasksReady(pool="default_pool", limit=10)])
    return daemon


async def test_who_was_taken_for_dead_submits_nothing_of_before(daemon: Daemon) -> None:
    other = Daemon(daemon.context.settings, daemon.context.database)
    before = await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)

    await anyio.sleep(2 * TTL_S)
    await other.renew()
    taken_over = await other.dispatcher._claim(other.dispatcher._claim_abandoned)
    await daemon.renew()
    is_fresh = daemon.context.held_leases.fresh
    await daemon.dispatcher._submit_batch(before.claims)
    await other.renew()
    await other.dispatcher._resolve_batch(taken_over.claims)

    assert is_fresh
    assert [claim.submission_id for claim in taken_over.claims] == [claim.submission_id for claim in before.claims]
    assert (len(daemon.backend.given), len(other.backend.given)) == (0, 1)


async def test_a_claim_that_was_not_taken_over_is_claimed_again(daemon: Daemon) -> None:
    before = await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)

    await anyio.sleep(2 * TTL_S)
    await daemon.renew()
    await daemon.dispatcher._submit_batch(before.claims)
    again = await daemon.dispatcher._claim(daemon.dispatcher._claim_abandoned)
    await daemon.dispatcher._resolve_batch(again.claims)

    assert daemon.backend.given == [claim.submission_id for claim in before.claims]


async def test_who_may_be_taken_for_dead_while_he_looks_does_not_submit_afterwards(daemon: Daemon) -> None:
    """After a loss of commits a daemon looks before it submits."""
    daemon.context.held_leases.has_open_loss = True
    before = await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)

    daemon.backend.look_s = TTL_S
    await daemon.dispatcher._submit_batch(before.claims)

    assert not daemon.backend.given


async def test_a_postgres_that_goes_while_submits_are_settled_is_waited_for(daemon: Daemon) -> None:
    """It is no reason for a daemon to end."""
    batch = await daemon.dispatcher._claim(daemon.dispatcher._claim_intents)
    await daemon.context.database.pool.close()

    with pytest.raises(UnavailableError):
        await daemon.dispatcher._resolve_batch(batch.claims)

    assert not daemon.dispatcher.claims.ids
