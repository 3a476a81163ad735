"""The start of a daemon, while Postgres comes and goes."""

import os
from collections.abc import Sequence
from uuid import uuid4

import pytest

from tests.servers import MakeSettings
from tidegate.daemon import supervisor
from tidegate.daemon.context import Context
from tidegate.daemon.leases import HeldLeases, register
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.wake import Signals
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.leases import Job, LeaseSpec


async def test_postgres_may_go_away_again_during_the_start(
    settings: MakeSettings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Sequence[LeaseSpec]] = []

    async def cut_the_first_time(database: Database, specs: Sequence[LeaseSpec]) -> None:
        tries.append(specs)
        if len(tries) == 1:
            raise UnavailableError("connection was closed in the middle of operation", server="Postgres")
        await register(database, specs)

    monkeypatch.setattr(supervisor, "register", cut_the_first_time)
    mine = settings()
    job = Job(uuid4(), mine.host, os.getpid(), "test")
    context = Context(
        settings=mine, database=database, held_leases=HeldLeases(job), signals=Signals(), outages=Outages(), backends={}
    )

    await supervisor.prepare_database(context)

    assert len(tries) == 2
    assert await database.pool.fetchval("SELECT count(*) FROM lease") == len(tries[1])
