"""Seeded faults of containment: what one input breaks stops the work on all others."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from tests.storms.replace import replace
from tidegate.daemon import context
from tidegate.daemon.containment import Halves, halves
from tidegate.daemon.engine import Applied, Batch, apply
from tidegate.daemon.intake import ingest
from tidegate.daemon.postgres.database import Database


def nothing_contained() -> None:
    """A DAG that cannot be read is not held, and a batch that fails is not bisected."""

    async def apply_all(database: Database, batch: Batch) -> Applied:
        return await apply(database, batch)

    async def act_once(
        items: Sequence[Any],
        act: Callable[[Sequence[Any]], Awaitable[Any]],
        contain: Callable[[Sequence[Any], Exception], Awaitable[Any]],
        split: Halves[Any] = halves,
    ) -> list[Any]:
        return [await act(items)]

    replace(context, "apply_holding", apply_all)
    replace(context, "bisect", act_once)
    replace(ingest, "bisect", act_once)


HOSTILE_FAULTS: Mapping[str, Callable[[], None]] = {fault.__name__: fault for fault in (nothing_contained,)}
