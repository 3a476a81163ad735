"""The tokens of attempts in the databases of tests, whose secret is known."""

from hashlib import sha256
from uuid import UUID

import asyncpg

SECRET = b"of all databases of a test run  "


def token_of(submission_id: UUID) -> str:
    """As the function `attempt_token` of the schema."""
    return sha256(SECRET + submission_id.bytes).hexdigest()[:32]


async def make_known(dsn: str) -> None:
    """Set the secret of a database, whose DAG folder counts as read: most tests have none."""
    db = await asyncpg.connect(dsn)
    try:
        await db.execute("UPDATE installation SET secret = $1, files_read_at = now()", SECRET)
    finally:
        await db.close()
