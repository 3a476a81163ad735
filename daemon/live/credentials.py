"""Ends the streams of tokens and sessions that were revoked or have expired."""

from functools import partial

import anyio

from tidegate.daemon.live.containment import contained
from tidegate.daemon.live.hub import Hub
from tidegate.daemon.outage import Retry
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.queries import credentials

CHECK_S = 2.0
INVALID = "the token or the session has ended: log in again"


async def watch(hub: Hub, database: Database) -> None:
    """Check the credentials of all open streams with one query, for ever. While Postgres is away, the streams say so."""
    retry = Retry(hub.outages, ends_outages=True)
    while True:
        await anyio.sleep(CHECK_S)
        await retry.once(
            contained, "credentials_not_checked", "its check of tokens and sessions", partial(end_invalid, hub, database)
        )


async def end_invalid(hub: Hub, database: Database) -> None:
    """Raises UnavailableError. Without a stream nothing is asked, but in an outage, whose end is an answer."""
    named = {stream.owner.credential_id for stream in hub}
    if named or hub.outages.away:
        valid = await database.autocommit(credentials.valid, list(named))
        hub.end(INVALID, of=lambda stream: stream.owner.credential_id in named - valid)
