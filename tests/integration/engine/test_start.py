"""The start of a daemon, while Postgres comes and goes."""

from collections.abc import Sequence

import pytest

from tests.integration.engine.contexts import context_of
from tests.servers import MakeSettings
from tidegate.daemon import supervisor
from tidegate.daemon.leases import register
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.leases import LeaseSpec


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

    await supervisor.prepare_database(context_of(database, mine))

    assert len(tries) == 2
    assert await database.pool.fetchval("SELECT count(*) FROM lease") == len(tries[1])
