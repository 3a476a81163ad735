"""The backends that run tasks: which daemons serve them, what they cannot reach, and what is at work."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from tidegate.schemas.dag import BACKENDS
from tidegate.schemas.queries import leases, queue_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Away, JobRow
from tidegate.schemas.queries.queue_pages import BackendRow


class BackendLine(msgspec.Struct, frozen=True):
    """A backend. `kinds` are the kinds of tasks that it runs, `served_by` the hosts of its daemons, `hosts` what is at work."""

    name: str
    kinds: Sequence[str]
    served_by: Sequence[str]
    hosts: Sequence[BackendRow]

    @property
    def accepted(self) -> int:
        return sum(row.accepted for row in self.hosts)

    @property
    def waiting(self) -> int:
        """The attempts that the backend has not accepted."""
        return sum(row.intents + row.submitting for row in self.hosts)


class ServerOutage(msgspec.Struct, frozen=True):
    """A server that a daemon cannot reach."""

    server: str
    host: str
    pid: int
    away: Away


class Clusters(msgspec.Struct, frozen=True):
    """The backends by name, and the outages of all servers, the longest first."""

    backends: Sequence[BackendLine]
    outages: Sequence[ServerOutage]

    @property
    def at_work(self) -> Sequence[BackendRow]:
        """What is at work, by backend and host."""
        return [row for backend in self.backends for row in backend.hosts]


async def read_clusters(db: Db) -> Clusters:
    daemons = await leases.live(db)
    return Clusters(backends_of(daemons, await queue_pages.open_attempts(db)), outages_of(daemons))


def backends_of(daemons: Sequence[JobRow], attempts: Sequence[BackendRow]) -> list[BackendLine]:
    """The backends that tasks have, that daemons serve, or that attempts are at."""
    hosts: dict[str, list[BackendRow]] = defaultdict(list)
    for row in attempts:
        hosts[row.backend].append(row)
    names = {*BACKENDS.values(), *hosts, *(name for daemon in daemons for name in daemon.terms.backends)}
    return [
        BackendLine(
            name=name,
            kinds=[kind for kind, backend in BACKENDS.items() if backend == name],
            served_by=[daemon.host for daemon in daemons if name in daemon.terms.backends],
            hosts=hosts[name],
        )
        for name in sorted(names)
    ]


def outages_of(daemons: Sequence[JobRow]) -> list[ServerOutage]:
    found = [ServerOutage(server, daemon.host, daemon.pid, away) for daemon in daemons for server, away in daemon.away.items()]
    return sorted(found, key=lambda outage: outage.away.since)
