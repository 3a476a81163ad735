"""The pages of `pools`."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.daemon.pool_file import PoolChange
from tidegate.daemon.read_model.queue import PoolQueue, QueuedTask
from tidegate.schemas.queries.pools import UNLIMITED, PoolRow
from tidegate.schemas.text import age, counted

TITLES = ("POOL", "SLOTS", "RUNNING", "QUEUED", "WAITING", "OPEN")
QUEUE_TITLES = ("PLACE", "DAG", "RUN", "TASK", "SLOTS", "READY FOR", "WAITS FOR")
NO_LIMIT = "unlimited"


def document(pool: PoolRow) -> dict[str, Any]:
    """The JSON object; `open` is null if `slots` is -1."""
    return {**msgspec.structs.asdict(pool), "open": pool.open}


def print_pools(pools: Iterable[PoolRow]) -> None:
    output.table(TITLES, map(_cells, pools), empty="there are no pools")


def print_queue(page: PoolQueue, now: datetime) -> None:
    rows = (_queued(place, entry, now) for place, entry in enumerate(page.queue, 1))
    output.table(QUEUE_TITLES, rows, empty=f"no task waits for slots of {page.name}")
    if not page.daemons:
        output.say("no daemon is alive: no task gets slots until one is")


def _queued(place: int, entry: QueuedTask, now: datetime) -> tuple[output.Cell, ...]:
    task = entry.task
    reasons = ["the next admission"] if entry.blocked_by is None else [reason.text for reason in entry.blocked_by]
    return place, task.dag_id, task.run_id, task.label, task.pool_slots, task.since and age(task.since, now), "; ".join(reasons)


def change_text(name: str, slots: int, before: int | None) -> str:
    """The sentence after `pools set`; `before` is None for a new pool."""
    count = "1 slot" if slots == 1 else f"{_slots(slots)} slots"
    if before is None:
        return f"created {name}: {count}"
    return f"{name}: {count}, {'as before' if before == slots else f'was {_slots(before)}'}"


def print_changes(changes: Sequence[PoolChange], of: int) -> None:
    """The sentences after `pools apply`, of a file with this number of pools."""
    for change in changes:
        output.write(
            f"deleted {change.name}" if change.slots is None else change_text(change.name, change.slots, change.slots_before)
        )
    if not changes:
        output.write(f"nothing changes: {counted(of, 'pool is', 'pools are')} as the file has them")


def _cells(pool: PoolRow) -> tuple[output.Cell, ...]:
    free = NO_LIMIT if pool.open is None else pool.open
    return pool.name, _slots(pool.slots), pool.running, pool.queued, pool.waiting, free


def _slots(slots: int) -> str:
    return NO_LIMIT if slots == UNLIMITED else str(slots)
