"""The databases, the settings and the open streams of a web process."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from functools import partial

import msgspec

from tidegate.daemon.gateway.rate_limit import RateLimit
from tidegate.daemon.gateway.shared_reads import SharedReads
from tidegate.daemon.gateway.turns import Turns
from tidegate.daemon.identity.grants import Grants, grants_of
from tidegate.daemon.identity.proxy import Proxy, proxy_of
from tidegate.daemon.live.hub import Hub
from tidegate.daemon.live.log_ranges import LogRanges, ranges_of
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import Backend
from tidegate.daemon.spark.runner_backend import open_backends
from tidegate.events.sink import Sink

IDENTITY_CONNECTIONS = 2

FAILED_LOGINS_PER_S = 2.0
"""More of them from one address would fill the audit log."""

FAILED_TOKENS_PER_S = 10.0
"""A program whose token has expired asks on, and all programs behind a proxy have one address."""

PROVIDER_LOGINS_PER_S = 10.0
"""All users behind a proxy have one address."""

DELIVERY_S = 5.0
"""The time of a try to publish events. A request has time for two, so that a dead connection is replaced while it waits."""

READ_S = 5.0
"""The time of a statement that reads."""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """`database` changes state; `reader` only reads, and may be a standby; `primary` only reads, and knows every change.

    `identities` finds callers, on connections of its own: a change that waits for a lock delays no other request by that.

    `limit` counts the requests of each caller, of pages and API together, `failed_logins` those of each address and of each user
    without a role, `failed_tokens` (unknown ones) and `provider_logins` (by OpenID Connect) those of each address. `hub` has no
    changes before `tidegate.daemon.live.follow` runs. `shared_reads` are those of pages. `proxy` may name users; None: none may.
    `grants` are the rights of groups. `log_ranges` asks Kafka. `backends` read the logs on this host.

    `sink` publishes the events of all requests: with a connection for each of them, an outage of Kafka would use up the
    descriptors of the process. `turns` are those of callers whose previews compute. `given_up` are the users and Idempotency-Keys
    of failed requests that Postgres has as at work: it was away when they failed.
    """

    settings: Settings
    database: Database
    reader: Database
    primary: Database
    identities: Database
    limit: RateLimit
    hub: Hub
    shared_reads: SharedReads
    failed_logins: RateLimit
    failed_tokens: RateLimit
    provider_logins: RateLimit
    proxy: Proxy | None
    grants: Grants
    log_ranges: LogRanges
    backends: Mapping[str, Backend]
    sink: Sink
    turns: Turns
    given_up: set[tuple[str, str]]


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    """Open the pools; the first request opens the first connection."""
    grants = grants_of(settings)
    async with (
        connect(settings.postgres_dsn, writer="web", run_events=settings.run_events) as database,
        _reader(settings, settings.web_dsn or settings.postgres_dsn, prefers_standby=bool(settings.web_dsn)) as reader,
        _reader(settings, settings.postgres_dsn) if settings.web_dsn else nullcontext(reader) as primary,
        connect(settings.postgres_dsn, connections=IDENTITY_CONNECTIONS) as identities,
        aclosing(LogRanges(partial(ranges_of, settings))) as log_ranges,
        aclosing(SharedReads()) as shared_reads,
        Sink(settings.kafka_servers, security=settings.kafka_security, delivery_timeout_s=DELIVERY_S) as sink,
    ):
        yield Service(
            settings=settings,
            database=database,
            reader=reader,
            primary=primary,
            identities=identities,
            limit=RateLimit(settings.web_requests_per_s, time.monotonic),
            hub=Hub(),
            shared_reads=shared_reads,
            failed_logins=RateLimit(FAILED_LOGINS_PER_S, time.monotonic, "failed logins"),
            failed_tokens=RateLimit(FAILED_TOKENS_PER_S, time.monotonic, "requests with a wrong token"),
            provider_logins=RateLimit(PROVIDER_LOGINS_PER_S, time.monotonic, "logins by OpenID Connect"),
            proxy=proxy_of(settings, grants),
            grants=grants,
            log_ranges=log_ranges,
            backends=open_backends(settings),
            sink=sink,
            turns=Turns(),
            given_up=set(),
        )


def _reader(settings: Settings, dsn: str, *, prefers_standby: bool = False) -> AbstractAsyncContextManager[Database]:
    connections, events = settings.web_connections, settings.run_events
    return connect(dsn, connections=connections, run_events=events, reads_within_s=READ_S, prefers_standby=prefers_standby)
