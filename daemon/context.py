"""The objects that the duties of one daemon share."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tidegate.daemon.busy_intake import BusyIntake
from tidegate.daemon.containment import apply_holding, apply_without_owner, bisect, deferred, halves, message_halves
from tidegate.daemon.decision_log import DecisionLog
from tidegate.daemon.engine import NOTHING, Applied, Batch, merged
from tidegate.daemon.leases import HeldLeases
from tidegate.daemon.measure import Measurements
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.postgres.low_watermark import LowWatermark, advance_events
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import Backend
from tidegate.daemon.wake import Signals
from tidegate.schemas.error import POSTGRES, LockedError, TooSlowError
from tidegate.schemas.message import Message
from tidegate.schemas.wire.event import EventId


class Context(msgspec.Struct, frozen=True):
    """Built once by the supervisor. `events` is the low watermark of dataset events."""

    settings: Settings
    database: Database
    held_leases: HeldLeases
    signals: Signals
    outages: Outages
    backends: Mapping[str, Backend]
    events: LowWatermark = msgspec.field(default_factory=LowWatermark)
    decisions: DecisionLog = msgspec.field(default_factory=DecisionLog)
    busy_intake: BusyIntake = msgspec.field(default_factory=BusyIntake)
    measurements: Measurements = msgspec.field(default_factory=Measurements)

    async def apply(self, batch: Batch) -> Applied:
        """Apply a batch and wake the duties that have work from it. Raises as `engine.apply` does."""
        applied = await apply_holding(self.database, batch)
        self.outages.end(POSTGRES)
        self.signals.set(applied.work)
        self.decisions.report(applied.noted)
        self.measurements.add(applied.samples)
        await advance_events(self.database, self.events)
        return applied

    async def apply_or_defer(self, batch: Batch) -> Applied:
        """As `apply`. The decision about a single record that needs a row of another session is left to the clock."""
        try:
            return await self.apply(batch)
        except LockedError:
            if (later := deferred(batch)) is None:
                raise
            return await self.apply(later)

    async def submit_messages(self, bodies: Sequence[Any], ids: Sequence[EventId | None] = ()) -> Applied:
        """Apply internal messages of one type, at least one. A message that fails holds the DAG that it is about.

        Raises TooSlowError for a message that is too slow alone, after the others were applied.
        """
        at, slow = self.database.clock.known(), list[TooSlowError]()
        messages = [Message(body=body, at=at, id=id_) for body, id_ in zip(bodies, ids or [None] * len(bodies), strict=True)]

        async def act(part: Sequence[Message[Any]]) -> Applied:
            try:
                return await self._apply_messages(part)
            except TooSlowError as error:
                split = halves if isinstance(error, LockedError) else message_halves  # fewer tasks need the same row of a pool
                if split(part) is not None:
                    raise
                slow.append(error)
                return NOTHING

        applied = merged(await bisect(messages, act, self._contain, message_halves))
        if slow:
            raise slow[0]
        return applied

    async def _apply_messages(self, messages: Sequence[Message[Any]]) -> Applied:
        return await self.apply(Batch(messages=messages))

    async def _contain(self, messages: Sequence[Message[Any]], error: Exception) -> Applied:
        """Raises `error` if the message is about no single DAG."""
        again = partial(self._apply_messages, messages)
        applied = await apply_without_owner(self.database, messages[0].body, error, again)
        if applied is None:
            raise error
        return applied

    @property
    def takeovers(self) -> int:
        """How many times another server of Postgres has taken over."""
        return self.database.commit_loss.takeovers if self.database.commit_loss else 0

    @property
    def in_doubt(self) -> bool:
        """Whether attempts may run that Postgres does not know, because commits were lost or a takeover is recent."""
        return self.held_leases.has_open_loss or (self.database.commit_loss is not None and self.database.commit_loss.unsure)

    @property
    def shared_backends(self) -> list[str]:
        """The backends whose submissions every host can see."""
        return [name for name, backend in self.backends.items() if backend.host is None]
