"""The databases, the settings and the open streams of a web process."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from tidegate.daemon.gateway.rate_limit import RateLimit
from tidegate.daemon.identity.proxy import Proxy, proxy_of
from tidegate.daemon.live.hub import Hub
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.settings import Settings

IDENTITY_CONNECTIONS = 2

FAILED_LOGINS_PER_S = 2.0
"""More of them from one address would fill the audit log."""

PROVIDER_LOGINS_PER_S = 10.0
"""All users behind a proxy have one address."""

READ_S = 5.0
"""The time of a statement that reads."""


class Service(msgspec.Struct, frozen=True):
    """`database` changes state; `reader` only reads, and may be a standby. `identities` finds callers, on connections of its own:
    changes that wait for locks keep no other request from being known.

    `limit` counts the requests of each caller, of pages and API together, `failed_logins` and `provider_logins` (by OpenID
    Connect) those of each address. `hub` has no changes before `tidegate.daemon.live.follow` runs. `proxy` may name users;
    None: none may.
    """

    settings: Settings
    database: Database
    reader: Database
    identities: Database
    limit: RateLimit
    hub: Hub
    failed_logins: RateLimit
    provider_logins: RateLimit
    proxy: Proxy | None


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    """Open the pools; the first request opens the first connection."""
    events = settings.run_events
    dsn, connections = settings.web_dsn or settings.postgres_dsn, settings.web_connections
    async with (
        connect(settings.postgres_dsn, writer="web", run_events=events) as database,
        connect(dsn, connections=connections, run_events=events, reads_within_s=READ_S) as reader,
        connect(settings.postgres_dsn, connections=IDENTITY_CONNECTIONS) as identities,
    ):
        rates = settings.web_requests_per_s, FAILED_LOGINS_PER_S, PROVIDER_LOGINS_PER_S
        limit, failed, by_provider = (RateLimit(per_s, time.monotonic) for per_s in rates)
        yield Service(settings, database, reader, identities, limit, Hub(), failed, by_provider, proxy_of(settings))
