"""OpenLineage events of a batch: dataset updates, failed runs, and events without new data."""

from collections import Counter
from collections.abc import Sequence

from tidegate.schemas.message import Message
from tidegate.schemas.queries import inbox
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import Identity
from tidegate.schemas.wire.event import DatasetUpdated, EventId
from tidegate.schemas.wire.openlineage import FAILED, SOURCE, LineageEvent

AFTER_FAILURE = "COMPLETE of a run that failed"

FAILED_RUN = "run"
"""The scope of failed runs among the ids of events."""


class Lineage:
    """`add` collects the events of a batch; `accept` runs in the transaction of the batch."""

    def __init__(self) -> None:
        self.failed: set[Identity] = set()
        self.runs: dict[int, tuple[Identity, str]] = {}
        self.ignored: Counter[tuple[str, str]] = Counter()

    @property
    def used(self) -> bool:
        """Whether any event was added that `accept` has to process."""
        return bool(self.runs or self.ignored)

    def add(self, index: int, partition: str, event: LineageEvent) -> Sequence[Message[DatasetUpdated]]:
        """The messages of an event; `index` is that of the first one in the batch."""
        run = Identity(FAILED, event.run_id, FAILED_RUN)
        if event.failed:
            self.failed.add(run)
        if not event.updates and not event.refused:
            self.ignored[partition, event.what] += 1
        self.runs.update(dict.fromkeys(range(index, index + len(event.updates)), (run, partition)))
        return [
            Message(body=DatasetUpdated(uri=update.uri, extra=update.extra), at=update.at, id=EventId(SOURCE, update.id))
            for update in event.updates
        ]

    async def accept(self, db: Db, indexes: Sequence[int]) -> Sequence[int]:
        """Record failed runs and count ignored messages. Returns the indexes without messages of failed runs, of any batch."""
        if self.failed:
            await inbox.record_batch(db, (), sorted(self.failed))
        failed = await inbox.recorded(db, {run for run, _ in self.runs.values()}) if self.runs else {}
        void = {index for index in indexes if index in self.runs and self.runs[index][0] in failed}
        counts = self.ignored + Counter((self.runs[index][1], AFTER_FAILURE) for index in void)
        if counts:
            await inbox.count_ignored(db, counts)
        return [index for index in indexes if index not in void]
