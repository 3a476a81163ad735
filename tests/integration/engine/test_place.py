"""Which of the daemons that live a daemon is."""

from datetime import timedelta
from uuid import UUID, uuid4

from tidegate.daemon.postgres.database import Database
from tidegate.schemas.queries import leases
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import DaemonRank

TTL_S = 10.0


async def begun(database: Database, heard_of: timedelta) -> UUID:
    id_ = uuid4()
    await database.pool.execute(
        "INSERT INTO job (id, host, pid, version, settings, started_at, heartbeat_at)"
        " VALUES ($1, 'here', 1, '0', '{}', clock_timestamp(), clock_timestamp() - $2::interval)",
        id_,
        heard_of,
    )
    return id_


async def place(database: Database, id_: UUID) -> DaemonRank:
    async def work(db: Db) -> DaemonRank:
        return await leases.daemon_rank(db, id_)

    return await database.run(work)


async def test_they_are_numbered_by_age_and_who_was_not_heard_of_does_not_count(database: Database) -> None:
    oldest = await begun(database, timedelta())
    await begun(database, timedelta(seconds=TTL_S + 1))
    youngest = await begun(database, timedelta())

    assert await place(database, oldest) == DaemonRank(0, 2)
    assert await place(database, youngest) == DaemonRank(1, 2)


async def test_who_asks_lives_also_when_it_was_frozen_since_its_heartbeat(database: Database) -> None:
    frozen = await begun(database, timedelta(seconds=TTL_S + 1))

    assert await place(database, frozen) == DaemonRank(0, 1)

    await begun(database, timedelta())

    assert await place(database, frozen) == DaemonRank(0, 2)
