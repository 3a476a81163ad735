"""The installation: what is wrong with it, its daemons, partitions, retention, schema and tables, and this web process."""

import os
import socket
from collections.abc import Sequence

from msgspec import Struct

from tidegate.daemon.build import build
from tidegate.daemon.gateway.endpoint import Call, Load, Params
from tidegate.daemon.intake.lag import PartitionRow, list_partitions, with_ranges
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.system import System, facts, headline, read_system
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.error import KAFKA, UnavailableError
from tidegate.schemas.queries import system_pages
from tidegate.schemas.text import counted

SHOWN = 200
"""The partitions that the page shows."""


class WebProcess(Struct, frozen=True):
    """The web process that answers, and its limits; a limit of requests of 0 is none."""

    host: str
    pid: int
    version: str
    open_streams: int
    requests_per_s: float
    streams_per_caller: int
    connections: int


class SystemScreen(Struct, frozen=True):
    """What the installation is doing. `no_ends` says why the ends of the logs are not known; empty: they are."""

    system: System
    partitions: Sequence[PartitionRow]
    no_ends: str
    has_more: bool
    web: WebProcess

    @property
    def headline(self) -> str:
        return headline(len(self.system.problems))

    @property
    def facts(self) -> str:
        """All facts in a line: those of the installation, and how far its partitions are behind."""
        records = counted(sum(row.lag or 0 for row in self.partitions), "record is", "records are")
        first = f" of the first {len(self.partitions)} partitions" if self.has_more else ""
        behind = "how far partitions are behind is not known" if self.no_ends else f"{records} not read yet{first}"
        return "; ".join((*facts(self.system), behind))

    @property
    def behind(self) -> Sequence[PartitionRow]:
        """The partitions with unread records, and the partitions without a daemon."""
        return [row for row in self.partitions if row.lag or row.halted or row.host is None]

    @property
    def others(self) -> Sequence[PartitionRow]:
        behind = self.behind
        return [row for row in self.partitions if row not in behind]


async def read(call: Call[Params]) -> SystemScreen:
    """Kafka is asked after the transaction: no snapshot waits for it."""
    system = await call.service.reader.run(read_system)
    rows, no_ends = await _partitions(call)
    return SystemScreen(system, rows[:SHOWN], no_ends, len(rows) > SHOWN, _web(call))


async def _partitions(call: Call[Params]) -> tuple[list[PartitionRow], str]:
    away = call.service.hub.outages.away.get(KAFKA)
    if away is None:
        try:
            return await list_partitions(call.service.reader, call.service.log_ranges.of, limit=SHOWN + 1), ""
        except UnavailableError as error:
            if error.server != KAFKA:
                raise
            why = str(error)
    else:
        why = away.error
    lines = await call.service.reader.run(system_pages.partitions, limit=SHOWN + 1)
    return with_ranges(lines, {}), why


def _web(call: Call[Params]) -> WebProcess:
    settings, streams = call.settings, sum(1 for _ in call.service.hub)
    limits = settings.web_requests_per_s, settings.web_streams, settings.web_connections
    return WebProcess(socket.gethostname(), os.getpid(), build(), streams, *limits)


SCREEN = Screen(Load("/system", Right.VIEW, read, Params, SystemScreen), "system.html")
