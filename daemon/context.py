"""What the duties of one daemon share."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import structlog

from tidegate.daemon.engine import Applied, Batch, apply
from tidegate.daemon.leases import Holdings
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.postgres.low_watermark import Settled, settle
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import Backend
from tidegate.daemon.wake import Bells
from tidegate.schemas.message import Message
from tidegate.schemas.wire.event import EventId

log = structlog.get_logger()

LOGGED = {"deadline_run": "run_anyway", "deadline_skip": "skip", "deadline_alert": "alert"}
"""What came of schedules that operators should see; the rest is for whoever asks about the DAG."""


class Context(msgspec.Struct, frozen=True):
    """Built once by the supervisor."""

    settings: Settings
    database: Database
    holdings: Holdings
    bells: Bells
    outages: Outages
    backends: Mapping[str, Backend]
    events: Settled = msgspec.field(default_factory=Settled)

    async def apply(self, batch: Batch) -> Applied:
        """Apply a batch and wake whoever has work from it. Raises as `engine.apply` does."""
        applied = await apply(self.database, batch)
        self.outages.end("Postgres")
        self.bells.ring(applied.work)
        for note in applied.notes:
            if note.kind in LOGGED:
                log.warning("inputs_missed_deadline", dag_id=note.dag_id, fallback=LOGGED[note.kind], reason=note.reason)
        await settle(self.database, self.events)
        return applied

    async def tell(self, bodies: Sequence[Any], ids: Sequence[EventId | None] = ()) -> Applied:
        """Apply messages of our own; all of one type, at least one."""
        at = self.database.clock.known()
        known = ids or [None] * len(bodies)
        return await self.apply(
            Batch(messages=[Message(body=body, at=at, id=id_) for body, id_ in zip(bodies, known, strict=True)])
        )

    @property
    def takeovers(self) -> int:
        """How often another server of Postgres has taken over from the one before."""
        return self.database.commit_loss.takeovers if self.database.commit_loss else 0

    @property
    def in_doubt(self) -> bool:
        """Whether there may be more under way than Postgres knows: commits were lost, or may turn out to be."""
        return self.holdings.after_loss or (self.database.commit_loss is not None and self.database.commit_loss.unsure)

    @property
    def everywhere(self) -> list[str]:
        """The backends whose submissions every host can see."""
        return [name for name, backend in self.backends.items() if backend.host is None]
