"""What the OpenLineage events of a batch come to: messages, runs that failed, and what says nothing of new data."""

from collections import Counter
from collections.abc import Sequence

from tidegate.schemas.message import Message
from tidegate.schemas.queries import inbox
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import DatasetUpdated, EventId
from tidegate.schemas.wire.openlineage import FAILED, SOURCE, LineageEvent

AFTER_FAILURE = "COMPLETE of a run that failed"


class Lineage:
    """Filled by one event after the other, then settled in the transaction of the batch."""

    def __init__(self) -> None:
        self.failed: set[EventId] = set()
        self.runs: dict[int, tuple[EventId, str]] = {}
        self.ignored: Counter[tuple[str, str]] = Counter()

    @property
    def used(self) -> bool:
        """Whether there was any."""
        return bool(self.runs or self.ignored)

    def take(self, place: int, partition: str, event: LineageEvent) -> Sequence[Message[DatasetUpdated]]:
        """The messages of an event; `place` is where the first of them stands in the batch."""
        run = EventId(FAILED, event.run_id)
        if event.failed:
            self.failed.add(run)
        if not event.updates and not event.refused:
            self.ignored[partition, event.what] += 1
        self.runs.update(dict.fromkeys(range(place, place + len(event.updates)), (run, partition)))
        return [
            Message(body=DatasetUpdated(uri=update.uri, extra=update.extra), at=update.at, id=EventId(SOURCE, update.id))
            for update in event.updates
        ]

    async def settle(self, db: Db, places: Sequence[int]) -> Sequence[int]:
        """The places of messages that count: not those of runs that failed, now or in an earlier batch."""
        if self.failed:
            await inbox.take(db, (), sorted(self.failed))
        failed = await inbox.known(db, {run for run, _ in self.runs.values()}) if self.runs else set()
        void = {place for place in places if place in self.runs and self.runs[place][0] in failed}
        counts = self.ignored + Counter((self.runs[place][1], AFTER_FAILURE) for place in void)
        if counts:
            await inbox.count_ignored(db, counts)
        return [place for place in places if place not in void]
