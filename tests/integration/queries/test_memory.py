"""The cached rows of a process are those of the server that it is connected to."""

from tidegate.daemon.postgres.database import connect
from tidegate.schemas.queries import installation


async def test_a_new_connection_drops_what_every_writer_remembers(dsn: str) -> None:
    async with connect(dsn) as database:
        of_user = database.written_by("anna")
        await of_user.run(installation.identity)
        of_user.memory.dataset_ids.remember("s://a", 7)
        await database.pool.expire_connections()

        await database.run(installation.identity)

        assert (of_user.memory.dataset_ids, of_user.memory is database.memory) == ({}, True)
