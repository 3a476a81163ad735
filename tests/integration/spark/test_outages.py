"""A spool that cannot be used for a while: said once, under its own name, and nothing is lost."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from tests.integration.cli.history import HOST, History
from tests.integration.spark.submissions import until_nothing_runs
from tests.servers import MakeSettings
from tests.waiting import until
from tidegate.daemon.context import Context
from tidegate.daemon.duties.dispatch import dispatch
from tidegate.daemon.duties.observe import observe
from tidegate.daemon.duties.sweep import requeue_stuck_attempts
from tidegate.daemon.leases import HeldLeases, renew
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.spark.runner_backend import open_backends
from tidegate.daemon.wake import Signals
from tidegate.events import topics
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries.leases import Job, Terms

FILE = 'from tidegate import Dag, Dataset\nwith Dag("d", schedule=Dataset("s://a")) as dag: dag.command("c", ["true"])\n'
WITHIN_S = 60.0


@pytest.fixture
async def daemon(settings: MakeSettings) -> AsyncIterator[Context]:
    """What dispatches and observes on this host; a task waits to be submitted."""
    mine = settings(host=HOST, topic_partitions=1, sweep_s=0.1)
    await topics.create(mine.kafka_servers, mine.topic_prefix, 1, 1)
    async with connect(mine.postgres_dsn) as database:
        job = Job(uuid4(), mine.host, os.getpid(), "test", Terms(lease_ttl_s=3600))
        context = Context(
            settings=mine,
            database=database,
            held_leases=HeldLeases(job),
            signals=Signals(),
            outages=Outages(),
            backends=open_backends(mine),
        )
        await renew(database, context.held_leases)
        await History(database).file(FILE)
        await History(database).updated("s://a")
        await context.submit_messages([TasksReady(pool="default_pool", limit=10)])
        yield context
        for submission_id in (row["submission_id"] for row in await submissions(context)):
            await until_nothing_runs(submission_id)


async def submissions(context: Context) -> list[Any]:
    return await context.database.run(lambda db: db.fetch("SELECT submission_id, state FROM submission ORDER BY try_number"))


def named(logs: Sequence[Any], *events: str) -> list[tuple[str, str]]:
    return [(line["event"], line["server"]) for line in logs if line["event"] in events]


async def until_lost(logs: Sequence[Any]) -> None:
    """Until it has been said; then for several tries more."""
    await until(lambda: named(logs, "server_lost"), WITHIN_S)
    await anyio.sleep(1)


async def until_states(context: Context, states: Sequence[str]) -> None:
    """Until the attempts are in these, in the order of their tries."""

    async def are_in_states() -> bool:
        return [row["state"] for row in await submissions(context)] == states

    await until(are_in_states, WITHIN_S)


@asynccontextmanager
async def at_work(context: Context) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tg:
        await tg.start(observe, context)
        await tg.start(dispatch, context)
        yield
        tg.cancel_scope.cancel()


async def test_a_spool_that_cannot_be_used_is_said_once_under_its_name_and_waited_for(daemon: Context) -> None:
    spool = Path(daemon.settings.spool_dir)
    spool.write_text("a file where a directory should be")

    with capture_logs() as logs:
        async with at_work(daemon):
            await until_lost(logs)
            await until_states(daemon, ["intent"])
            spool.unlink()
            await until_states(daemon, ["succeeded"])
            await until(lambda: named(logs, "server_back"), WITHIN_S)

    assert named(logs, "server_lost", "server_back") == [("server_lost", "the spool"), ("server_back", "the spool")]


async def test_a_log_that_cannot_be_written_is_waited_for(daemon: Context) -> None:
    ((submission_id, _),) = await submissions(daemon)
    log = Path(daemon.settings.spool_dir) / str(submission_id) / "log"
    log.mkdir(parents=True)

    with capture_logs() as logs:
        async with at_work(daemon):
            await until_lost(logs)
            log.rmdir()
            await until_states(daemon, ["succeeded"])
            await until(lambda: named(logs, "server_back"), WITHIN_S)

    assert named(logs, "server_lost", "server_back") == [("server_lost", "the runners"), ("server_back", "the runners")]


async def test_what_could_not_be_submitted_in_time_is_not_submitted_late_but_queued_anew(daemon: Context) -> None:
    spool = Path(daemon.settings.spool_dir)
    spool.write_text("a file where a directory should be")

    async with at_work(daemon):
        await anyio.sleep(1)
        await requeue_stuck_attempts(
            msgspec.structs.replace(daemon, settings=msgspec.structs.replace(daemon.settings, queued_timeout_s=0.5))
        )
        spool.unlink()
        await until_states(daemon, ["killed"])
        await daemon.submit_messages([TasksReady(pool="default_pool", limit=10)])
        await until_states(daemon, ["killed", "succeeded"])
