"""`tidegate pools`: how many tasks may work at a time, in groups of any kind."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from tidegate.daemon.cli.command import Json, examples, noun
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query, settings_of, who, with_database
from tidegate.schemas.dag import DEFAULT_POOL
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import pools
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.pools import UNLIMITED, PoolRow

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database

T = TypeVar("T")

app = noun("List, set and delete pools: slots for tasks at work.")

TITLES = ("POOL", "SLOTS", "RUNNING", "QUEUED", "WAITING", "OPEN")
ANY_NUMBER = "unlimited"
LONGEST_NAME = 250
MOST_SLOTS = 2**31 - 1

Name = Annotated[str, typer.Argument(metavar="NAME", help="1 to 250 printable characters.")]


@app.command("list", epilog=examples("tidegate pools list", "tidegate pools list --json | jq '.[] | select(.open == 0)'"))
def list_(context: typer.Context, *, json: Json = False) -> None:
    """List the pools. All numbers are slots: taken by tasks that run or are queued at a backend, waited for, and open."""

    async def read(db: Db) -> tuple[list[PoolRow], Mapping[str, int]]:
        return await pools.list_pools(db), await pools.missing(db)

    found, missing = query(context, read)
    if json:
        output.write_json([_document(pool) for pool in found])
    else:
        output.table(TITLES, map(_cells, found), empty="there are no pools")
    for name, tasks in missing.items():
        waiting = "1 task waits" if tasks == 1 else f"{tasks} tasks wait"
        output.say(f"{waiting} for pool {name!r}, which does not exist; `tidegate pools set` creates it")


@app.command(
    "set",
    context_settings={"ignore_unknown_options": True},
    epilog=examples("tidegate pools set reports 4", "tidegate pools set reports -1   # any number"),
)
def set_(
    context: typer.Context,
    name: Name,
    slots: Annotated[int, typer.Argument(metavar="SLOTS", min=UNLIMITED, max=MOST_SLOTS, help="-1: any number.")],
    *,
    json: Json = False,
) -> None:
    """Create a pool, or change how many slots it has. Who did it is recorded.

    What works goes on, also where there are fewer slots now.
    """
    _check_name(name)
    user = who(settings_of(context))

    async def change(db: Db) -> int | None:
        before = await pools.slots_of(db, name)
        if before != slots:
            await pools.set_slots(db, name, slots)
            what = "created a pool" if before is None else "changed a pool"
            await pools.record(db, user, what, name, {"slots": slots, "slots_before": before})
        return before

    before = with_database(context, lambda database: _change(database, change))
    if json:
        output.write_json({"name": name, "slots": slots, "slots_before": before})
    elif before is None:
        output.write(f"created {name}: {_count(slots)}")
    else:
        output.write(f"{name}: {_count(slots)}, {'as before' if before == slots else f'not {_slots(before)} any more'}")


@app.command(epilog=examples("tidegate pools delete reports"))
def delete(context: typer.Context, name: Name, *, json: Json = False) -> None:
    """Delete a pool that no task is in. Who did it is recorded."""
    user = who(settings_of(context))

    async def drop(db: Db) -> list[str]:
        slots = await _deletable(db, name)
        await pools.delete(db, name)
        await pools.record(db, user, "deleted a pool", name, {"slots_before": slots})
        return await pools.dags_with(db, name)

    left = with_database(context, lambda database: _change(database, drop))
    if json:
        output.write_json({"name": name, "dags": left})
    else:
        output.write(f"deleted {name}")
    if left:
        output.say(f"tasks of {', '.join(left)} still name it, and will wait until there is such a pool")


async def _change(database: "Database", change: Callable[[Db], Awaitable[T]]) -> T:
    """One transaction, and the daemons look who has room now."""
    from tidegate.daemon.cli.request import wake_daemons
    from tidegate.daemon.work import Work

    done = await database.run(change)
    await wake_daemons(database, Work.ADMIT)
    return done


async def _deletable(db: Db, name: str) -> int:
    """The slots of a pool that may be deleted, locked. Raises RequestError for any other."""
    if name == DEFAULT_POOL:
        raise RequestError(f"{name} cannot be deleted: tasks that name no pool are in it")
    slots = await pools.slots_of(db, name)
    if slots is None:
        known = ", ".join(pool.name for pool in await pools.list_pools(db))
        raise RequestError(f"there is no pool {name!r}; there are {known}")
    if tasks := await pools.tasks_in(db, name):
        there = "1 task is" if tasks == 1 else f"{tasks} tasks are"
        raise RequestError(f"{there} in pool {name!r}, at work or waiting; delete it when they have ended")
    return slots


def _check_name(name: str) -> None:
    if not name.isprintable() or not 1 <= len(name) <= LONGEST_NAME:
        raise typer.BadParameter(f"1 to {LONGEST_NAME} printable characters are needed", param_hint="NAME")


def _document(pool: PoolRow) -> dict[str, Any]:
    """As JSON has it; `open` is null where `slots` is -1."""
    return {**msgspec.structs.asdict(pool), "open": pool.open}


def _cells(pool: PoolRow) -> tuple[output.Cell, ...]:
    free = ANY_NUMBER if pool.open is None else pool.open
    return pool.name, _slots(pool.slots), pool.running, pool.queued, pool.waiting, free


def _slots(slots: int) -> str:
    return ANY_NUMBER if slots == UNLIMITED else str(slots)


def _count(slots: int) -> str:
    return "1 slot" if slots == 1 else f"{_slots(slots)} slots"
