"""The pages of `pools`."""

from collections.abc import Iterable
from typing import Any

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.schemas.queries.pools import UNLIMITED, PoolRow

TITLES = ("POOL", "SLOTS", "RUNNING", "QUEUED", "WAITING", "OPEN")
NO_LIMIT = "unlimited"


def document(pool: PoolRow) -> dict[str, Any]:
    """The JSON object; `open` is null if `slots` is -1."""
    return {**msgspec.structs.asdict(pool), "open": pool.open}


def print_pools(pools: Iterable[PoolRow]) -> None:
    output.table(TITLES, map(_cells, pools), empty="there are no pools")


def change_text(name: str, slots: int, before: int | None) -> str:
    """The sentence after `pools set`; `before` is None for a new pool."""
    count = "1 slot" if slots == 1 else f"{_slots(slots)} slots"
    if before is None:
        return f"created {name}: {count}"
    return f"{name}: {count}, {'as before' if before == slots else f'was {_slots(before)}'}"


def _cells(pool: PoolRow) -> tuple[output.Cell, ...]:
    free = NO_LIMIT if pool.open is None else pool.open
    return pool.name, _slots(pool.slots), pool.running, pool.queued, pool.waiting, free


def _slots(slots: int) -> str:
    return NO_LIMIT if slots == UNLIMITED else str(slots)
