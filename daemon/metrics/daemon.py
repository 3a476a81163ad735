"""What a daemon tells of itself beside its counts: its outages, its leases, the lag of its partitions, the size of its spool."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from os import DirEntry, scandir
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from tidegate.daemon import measure
from tidegate.daemon.context import Context
from tidegate.daemon.measure import Sample
from tidegate.daemon.metrics.serve import serve
from tidegate.daemon.settings import spool_root
from tidegate.daemon.spark.spool_threads import SpoolThreads
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.leases import CLOCK, OUTBOX, PARTITION
from tidegate.schemas.wire.event import INCOMING

MAX_OUTAGES = 50

SPOOL_S = 60.0
"""The pause between two measurements of the spool."""

MAX_ENTRIES = 200_000
"""The most files and folders of a spool that are measured: with more, its size is larger than the metric says."""


async def serve_metrics(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Serve the metrics of a daemon, if a setting has an address for them."""
    settings, measurements, spool = context.settings, context.measurements, _Spool(spool_root(context.settings))
    topics = [settings.topic(kind) for kind in INCOMING]
    measurements.begin(*(metric for metric in measure.METRICS if metric.of == "daemon" and metric.kind != "gauge"), topics=topics)
    reads = (partial(outages_of, context), partial(leases_of, context), measurements.lags, spool.samples)
    async with anyio.create_task_group() as tg:
        if settings.metrics_address:
            tg.start_soon(spool.keep_measured)
        await serve("metrics_address", settings, context.outages, measurements, *reads, task_status=task_status)


def outages_of(context: Context) -> list[Sample]:
    """The first outages by name."""
    return [Sample(measure.OUTAGES, 1, (name,)) for name in sorted(context.outages.away)[:MAX_OUTAGES]]


def leases_of(context: Context) -> list[Sample]:
    """None of leases that were not renewed in time."""
    held = context.held_leases
    return [Sample(measure.HELD_LEASES, len(held.of(kind)), (kind,)) for kind in (PARTITION, OUTBOX, CLOCK)]


class _Spool:
    """The size of the spool, measured in threads that hold up nothing if the disk hangs."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._threads = SpoolThreads(root)
        self._bytes: int | None = None

    async def keep_measured(self) -> None:
        while True:
            try:
                self._bytes = await self._threads.run(partial(size_of, self._root))
            except UnavailableError:
                self._bytes = None  # the duties that need the spool say so
            await anyio.sleep(SPOOL_S)

    def samples(self) -> list[Sample]:
        return [] if self._bytes is None else [Sample(measure.SPOOL, self._bytes)]


def size_of(root: Path) -> int:
    """The sizes of the first `MAX_ENTRIES` files and folders. Files that are deleted meanwhile count nothing."""
    return sum(map(_size, islice(_entries(str(root)), MAX_ENTRIES)))


def _entries(root: str) -> Iterator[DirEntry[str]]:
    folders = [root]
    while folders:
        try:
            with scandir(folders.pop()) as found:
                for entry in found:
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except FileNotFoundError:
            continue


def _size(entry: DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0
