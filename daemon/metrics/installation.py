"""The state of the installation for metrics, read from Postgres on a connection of its own, at most every few seconds."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import product

import anyio

from tidegate.daemon import measure
from tidegate.daemon.fault_log import faults
from tidegate.daemon.measure import Labels, Metric, Sample
from tidegate.daemon.postgres.database import Database, connect
from tidegate.schemas.error import FATAL, UnavailableError
from tidegate.schemas.queries import (
    dag_pages,
    dead_letters,
    long_transactions,
    metrics,
    now,
    queue_pages,
    row_holders,
    system_pages,
)
from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.queue_pages import BackendRow

FRESH_S = 5.0
"""Values of this age are served as they are: several Prometheus servers cost one read."""

WAIT_S = 2.0
"""How long a scrape waits for Postgres. Then it serves the last values: the time limit of Prometheus is 10 s."""

STATEMENT_S = 2.0
"""The time limit of one statement."""


class InstallationState:
    """The last values, and whether the last read succeeded. `keep_read` reads; `refresh` asks it to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._values: Sequence[Sample] = ()
        self._read_at = self._tried_at = float("-inf")
        self._is_up = False
        self._wanted, self._tried = anyio.Event(), anyio.Event()

    async def refresh(self) -> None:
        """Read again unless the values are fresh. Returns after `WAIT_S` at the latest."""
        if anyio.current_time() - self._tried_at < FRESH_S:
            return
        self._wanted.set()
        with anyio.move_on_after(WAIT_S) as scope:
            await self._tried.wait()
        if scope.cancelled_caught:
            self._is_up = False

    async def keep_read(self) -> None:
        """Read whenever a scrape asks, one read at a time: a Postgres that hangs gets no further ones."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            await self._read()
            self._tried_at = anyio.current_time()
            self._tried.set()
            self._tried = anyio.Event()

    async def _read(self) -> None:
        try:
            self._values = await self._database.run(read_state)
        except UnavailableError:
            self._is_up = False
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - the counts of the process are served without these values
            self._is_up = False
            faults.report("metrics_not_read", error)
        else:
            self._is_up, self._read_at = True, anyio.current_time()

    def samples(self) -> Iterator[Sample]:
        """The last values, and how old they are."""
        yield Sample(measure.POSTGRES_UP, float(self._is_up))
        if self._values:
            yield Sample(measure.POSTGRES_AGE, anyio.current_time() - self._read_at)
        yield from self._values


@asynccontextmanager
async def open_state(dsn: str) -> AsyncIterator[InstallationState]:
    """On one connection, which no duty and no request uses. It opens at the first scrape."""
    async with connect(dsn, connections=1, reads_within_s=STATEMENT_S) as database:
        yield InstallationState(database)


async def read_state(db: Db) -> list[Sample]:
    """All values of the installation, of one moment."""
    return [*await _of_work(db), *await _of_servers(db), *await _of_problems(db)]


async def _of_work(db: Db) -> Iterator[Sample]:
    active, counted = await metrics.active_runs(db), await now.counts(db, COUNTED)
    waits, attempts = await metrics.waits_of_pools(db), await queue_pages.open_attempts(db)
    return iter(
        [
            *_with_zeros(
                measure.ACTIVE_RUNS, [Sample(measure.ACTIVE_RUNS, row.runs, (row.run_type, row.state)) for row in active]
            ),
            Sample(measure.TASKS, counted.active, ("occupying",)),
            Sample(measure.TASKS, counted.waiting, ("waiting",)),
            *(Sample(measure.POOL_WAIT, row.seconds, (row.pool,)) for row in waits),
            *_with_zeros(measure.OPEN_ATTEMPTS, [sample for row in attempts for sample in _of_attempts(row)]),
        ]
    )


def _of_attempts(row: BackendRow) -> Iterator[Sample]:
    """Rows of several hosts are added up by `_with_zeros`."""
    for state, number in (("intent", row.intents), ("submitting", row.submitting), ("accepted", row.accepted)):
        yield Sample(measure.OPEN_ATTEMPTS, number, (row.backend, state))


async def _of_servers(db: Db) -> Iterator[Sample]:
    relay, counts, leases = await system_pages.relay(db), await metrics.counts(db), await system_pages.leases(db)
    transactions, holders = await long_transactions.open_for(db, 0), await row_holders.sessions(db)
    states = ((row.kind, row.owned, row.halted, row.number - row.owned - row.halted) for row in leases)
    of_leases = [
        Sample(measure.LEASES, number, (kind, state))
        for kind, *numbers in states
        for state, number in zip(("owned", "halted", "free"), numbers, strict=True)
    ]
    return iter(
        [
            Sample(measure.DAEMONS, counts.daemons),
            *_with_zeros(measure.LEASES, of_leases),
            Sample(measure.OUTBOX, relay.events),
            Sample(measure.OUTBOX_AGE, measure.seconds_between(relay.since, db.now) if relay.since else 0),
            Sample(measure.TRANSACTION_AGE, max((each.seconds for each in transactions), default=0)),
            Sample(measure.ROW_HOLDERS, len(holders)),
            Sample(measure.LOSSES, counts.losses),
            Sample(measure.NOTIFICATIONS, counts.notifications_open, ("open",)),
            Sample(measure.NOTIFICATIONS, counts.notifications_failed, ("failed",)),
            Sample(measure.HELD_DAGS, counts.held_dags),
        ]
    )


async def _of_problems(db: Db) -> Iterator[Sample]:
    letters, broken = await dead_letters.count_open(db), await dag_pages.count_import_errors(db)
    return iter([Sample(measure.DEAD_LETTERS, letters), Sample(measure.BROKEN_FILES, broken)])


def _with_zeros(metric: Metric, found: Sequence[Sample]) -> Iterator[Sample]:
    """One sample for each combination of known labels, and of others that were found."""
    sums = Counter[Labels]()
    for labels in product(*(label.values for label in metric.labels)):
        sums[labels] = 0
    for sample in found:
        sums[sample.labels] += int(sample.value)
    return (Sample(metric, number, labels) for labels, number in sums.items())
