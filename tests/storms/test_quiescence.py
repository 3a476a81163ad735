"""What a storm waits for before it begins."""

import asyncpg
import pytest

from tests.storms.quiescence import knows_dags
from tidegate.schemas.dag import AWAITED_DIGEST, REPEAT_DIGEST

FILE = "INSERT INTO dag_file (path, digest, parse_duration_s) VALUES ('a.py', $1, 0)"
ERROR = "INSERT INTO import_error (path, reason) VALUES ('a.py', 'it is wrong')"


async def write(dsn: str, digest: str) -> None:
    db = await asyncpg.connect(dsn)
    await db.execute(FILE, digest)
    await db.execute(ERROR)
    await db.close()


@pytest.mark.parametrize("digest", [REPEAT_DIGEST, AWAITED_DIGEST])
async def test_a_file_that_is_still_being_parsed_is_waited_for(dsn: str, digest: str) -> None:
    await write(dsn, digest)

    assert not await knows_dags(dsn, 1)


async def test_a_file_that_was_parsed_and_has_no_dags_is_an_error_of_the_storm(dsn: str) -> None:
    await write(dsn, "digest")

    with pytest.raises(ValueError, match="it is wrong"):
        await knows_dags(dsn, 1)
