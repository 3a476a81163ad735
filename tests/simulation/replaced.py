"""What of the product is replaced from outside: clients of simulated servers, the calendar, and what has no part here."""

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.simulation.kafka import OutboxSink, Source
from tests.storms.replace import replace
from tidegate.daemon import context, outage, wake
from tidegate.daemon.context import Context
from tidegate.daemon.duties import outbox_sinks, run_events, sweep
from tidegate.daemon.intake import former_offsets
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.work import Work

if TYPE_CHECKING:
    from tests.simulation.world import World


class Present:
    """The schedule that is being played."""

    world: "World"


class Calendar:
    """In the place of `datetime` where the product asks it for the time."""

    @staticmethod
    def now(_zone: tzinfo = UTC) -> datetime:
        return Present.world.server.now


async def ring(database: Database, work: Work) -> None:
    """NOTIFY, which is only a hint: it may be lost."""
    Present.world.ring(database, work)


class NoFile:
    """In the place of the files with the events of runs. What writes them needs no thread."""

    @staticmethod
    def create(_root: Path, _submission_id: UUID) -> Path:
        return Path(os.devnull, "events")

    @staticmethod
    def append(_path: Path, _events: Sequence[Any]) -> None: ...

    @staticmethod
    async def run_sync(call: Callable[..., Any], *arguments: object, **_: object) -> Any:
        return call(*arguments)


async def nothing(*_: Any) -> None:
    """The spool of this host and the months of the ledger are looked at elsewhere."""


def prepare() -> None:
    replace(former_offsets, "Source", Source)
    replace(outbox_sinks, "OutboxSink", OutboxSink)
    replace(wake, "notify", ring)

    async def prune(_: sweep.Pruner, context: Context) -> None:
        await nothing(context)

    async def maintain_ledger(database: Database, days: int) -> None:
        await nothing(database, days)

    replace(run_events, "event_file", NoFile)
    replace(run_events, "to_thread", NoFile)
    replace(sweep.Pruner, "prune", prune)
    replace(sweep, "maintain_ledger", maintain_ledger)
    for module in (context, outage, sweep):
        setattr(module, "datetime", Calendar)  # noqa: B010 - a class of another shape
