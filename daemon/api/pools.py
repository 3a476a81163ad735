"""Pools, whose slots limit active tasks."""

import re
from typing import Annotated, Any

from msgspec import Meta

from tidegate.daemon import pools as changes
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Act, Call, Nothing, Params, Read
from tidegate.daemon.gateway.lists import Keyset, Limit, Listed
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.queue import PoolQueue, read_queue
from tidegate.schemas.effect.audit import OF_POOL
from tidegate.schemas.error import NotFoundError, StaleError
from tidegate.schemas.queries import pools
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.pools import LONGEST_NAME, NAME_RULE, UNLIMITED, ChangedPool, DeletedPool, PoolRow

SlotCount = Annotated[int, Meta(ge=UNLIMITED, le=2**31 - 1)]
_TAG = re.compile(r'"?(-?[0-9]{1,10})"?', re.ASCII)
BY_NAME = Keyset("pools", ("name",), (str,))


class PoolPath(Params, frozen=True):
    """A pool by its name."""

    name: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, description="The name of the pool.")]


class QueuePath(PoolPath, frozen=True):
    """The first tasks in the queue of a pool."""

    limit: Limit = 50


class Slots(Params, frozen=True):
    """How many slots; -1 is no limit."""

    slots: SlotCount


async def list_pools(db: Db, call: Call[Listed]) -> Page[PoolRow]:
    """List pools by name."""
    params = call.params
    return BY_NAME.page(await pools.list_pools(db, after=BY_NAME.first(params), limit=params.limit + 1), params)


async def show_pool(db: Db, call: Call[PoolPath]) -> PoolRow:
    """Show a pool."""
    for pool in await pools.list_pools(db, call.params.name):
        return pool
    raise NotFoundError(f"there is no pool {call.params.name!r}; `tidegate pools list` shows all")


async def list_queue(db: Db, call: Call[QueuePath]) -> PoolQueue:
    """List the first tasks that wait for slots of a pool, with what each waits for, and the tasks that have slots."""
    return await read_queue(db, call.params.name, call.settings, call.params.limit)


async def set_pool(call: Call[PoolPath], body: Slots) -> ChangedPool:
    """Create a pool, or change its number of slots. Active tasks continue."""
    name = call.params.name
    check_name(name)
    expected = changes.Absent.ABSENT if call.facts.if_none_match else _expected(call)
    before = await changes.set_slots(call.database, call.caller.username, name, body.slots, expected=expected)
    return ChangedPool(name, body.slots, before)


def check_name(name: str) -> None:
    """Raises InvalidError."""
    if not pools.is_name(name):
        raise InvalidError(f"name: {NAME_RULE}")


async def delete_pool(call: Call[PoolPath], _body: Nothing) -> DeletedPool:
    """Delete a pool without active or waiting tasks."""
    name = call.params.name
    return DeletedPool(name, await changes.delete(call.database, call.caller.username, name, expected=_expected(call)))


def _version(pool: PoolRow) -> str:
    return str(pool.slots)


def _expected(call: Call[Any]) -> int | None:
    """The slots that If-Match names. Raises StaleError for an ETag that no pool had."""
    tag = call.facts.if_match
    if tag is None:
        return None
    if not (found := _TAG.fullmatch(tag)):
        raise StaleError(f"If-Match {tag} is no ETag of a pool; read the pool again, and repeat the change")
    return int(found[1])


ENDPOINTS = (
    Read("/pools", Right.VIEW, list_pools, Listed, Page[PoolRow]),
    Read("/pools/{name}/queue", Right.VIEW, list_queue, QueuePath, PoolQueue),  # first: a name may have slashes
    Read("/pools/{name}", Right.VIEW, show_pool, PoolPath, PoolRow, version=_version),
    Act(
        "PUT",
        "/pools/{name}",
        Right.OPERATE,
        set_pool,
        PoolPath,
        Slots,
        ChangedPool,
        versioned=True,
        does="changed a pool",
        about=OF_POOL,
    ),
    Act(
        "DELETE",
        "/pools/{name}",
        Right.OPERATE,
        delete_pool,
        PoolPath,
        Nothing,
        DeletedPool,
        versioned=True,
        does="deleted a pool",
        about=OF_POOL,
    ),
)
