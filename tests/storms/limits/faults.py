"""Seeded faults: each takes away one of the things that keep limits, order and turns.

A storm that does not see them sees nothing. Where two daemons must meet in a moment, the moment is made longer.
"""

import random
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Any

import anyio

from tests.storms.replace import replace, restate, without
from tidegate.daemon.duties.admit import PoolRotation
from tidegate.handlers import tasks_ready
from tidegate.handlers.runs import transition
from tidegate.handlers.runs.reason import NO_REASON, Reason
from tidegate.handlers.scheduling import round_robin
from tidegate.handlers.scheduling.dataset_runs import Step
from tidegate.handlers.scheduling.round_robin import Source
from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.effect import Effect
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries import dags, pools, starving, tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import Candidate, RunView, StarvingTask

LINGER_S = 0.1


def pool_rows_not_locked() -> None:
    """Two daemons give away the same free slots.

    They choose at random: if both chose the same tasks, the locks of their runs would be enough.
    """
    without(pools, "lock_pools", "FOR UPDATE")
    _linger(pools, "lock")
    _ready_in_any_order()


def slots_not_summed() -> None:
    """A task takes one slot, however many it declares."""
    restate(pools, "occupied", pools._SQL["occupied"].replace("sum(pool_slots)", "count(*)"))


def installation_not_locked() -> None:
    """Admissions to two pools do not know of each other."""
    replace(pools, "DEFAULT_POOL", "no pool")
    _linger(pools, "lock")

    def order(self: PoolRotation, pools: Sequence[str]) -> list[str]:
        return random.sample(pools, len(pools))

    replace(PoolRotation, "order", order)


def admissions_not_counted() -> None:
    """A run does not know how many of its tasks are active."""

    def change_run(
        before: RunView, _after: RunView, graph: Graph, moves: Sequence[Move], now: datetime, reason: Reason = NO_REASON
    ) -> Iterator[Effect]:
        return transition.change_run(before, before, graph, moves, now, reason)

    replace(tasks_ready, "change_run", change_run)


def instances_not_counted() -> None:
    """What is active of a task is left out of its limits."""

    async def limited_activity(db: Db, task_ids: Collection[str]) -> list[tuple[str, int, str]]:
        return []

    replace(tasks, "limited_activity", limited_activity)


def runs_not_counted() -> None:
    """A DAG does not know how many of its runs are at work."""
    counted = "SELECT count(*) FROM dag_run WHERE dag_run.dag_id = target.dag_id AND state = 'running' AND backfill_id IS NULL"
    without(dags, "activity", counted)
    restate(dags, "activity", dags._SQL["activity"].replace(") AS running", "0::bigint) AS running"))


def queue_turned_round() -> None:
    """The lightest come first."""
    original = tasks.ready

    async def ready(db: Db, pool: str, wanted: int, slots: int) -> list[Candidate]:
        return (await original(db, pool, wanted, slots))[::-1]

    replace(tasks, "ready", ready)


def head_holds_up_all() -> None:
    """What is behind the head of the queue is not looked at."""
    restate(tasks, "ready_behind", tasks._SQL["ready"])


def starving_tasks_ignored() -> None:
    """Starving tasks get no turn: heavier ones always come first."""

    async def longest_waiting(db: Db, pool: str, since: datetime, wanted: int, slots: int) -> list[StarvingTask]:
        return []

    replace(starving, "longest_waiting", longest_waiting)


def pools_by_name() -> None:
    """What all pools share is the first one's for as long as it wants any."""

    def order(self: PoolRotation, pools: Sequence[str]) -> list[str]:
        return sorted(pools)[:1]

    replace(PoolRotation, "order", order)


def ticks_come_first() -> None:
    """The timetable has every turn, also while datasets and users request runs."""
    original = round_robin._next_source

    def _next_source(last: str | None, starts: Mapping[Source, Step]) -> Source:
        return Source.TIMETABLE if Source.TIMETABLE in starts else original(last, starts)

    replace(round_robin, "_next_source", _next_source)


def _ready_in_any_order() -> None:
    original = tasks.ready

    async def ready(db: Db, pool: str, wanted: int, slots: int) -> list[Candidate]:
        found = await original(db, pool, 10 * wanted, slots)
        return random.sample(found, min(wanted, len(found)))

    replace(tasks, "ready", ready)


def _linger(owner: Any, name: str) -> None:
    """Between reading and deciding."""
    original: Callable[..., Awaitable[Any]] = getattr(owner, name)

    @wraps(original)
    async def lingering(*args: Any, **kwargs: Any) -> Any:
        found = await original(*args, **kwargs)
        await anyio.sleep(random.uniform(0, LINGER_S))
        return found

    replace(owner, name, lingering)


LIMIT_FAULTS: Mapping[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (
        pool_rows_not_locked,
        slots_not_summed,
        installation_not_locked,
        admissions_not_counted,
        instances_not_counted,
        runs_not_counted,
        queue_turned_round,
        head_holds_up_all,
        starving_tasks_ignored,
        pools_by_name,
        ticks_come_first,
    )
}
