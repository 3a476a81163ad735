"""`tidegate pools`: slots that limit how many tasks are active at once."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tidegate.daemon.cli.command import Json, command_group, examples
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.pools import change_text, document, print_pools
from tidegate.daemon.cli.session import query, read_settings, with_database
from tidegate.daemon.identity.local_user import current_user
from tidegate.schemas.dag import DEFAULT_POOL
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import pools
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.pools import UNLIMITED, PoolRow

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database

T = TypeVar("T")

app = command_group()

LONGEST_NAME = 250
MOST_SLOTS = 2**31 - 1

Name = Annotated[str, typer.Argument(metavar="NAME", help="1 to 250 printable characters.")]


@app.command("list", epilog=examples("tidegate pools list", "tidegate pools list --json | jq '.[] | select(.open == 0)'"))
def list_(context: typer.Context, *, json: Json = False) -> None:
    """List pools. All numbers are slots: of running tasks, of tasks queued at a backend, of waiting tasks, and open ones."""

    async def read(db: Db) -> tuple[list[PoolRow], Mapping[str, int]]:
        return await pools.list_pools(db), await pools.missing(db)

    found, missing = query(context, read)
    output.write_page([document(pool) for pool in found], lambda: print_pools(found), json=json)
    for name, tasks in missing.items():
        waiting = "1 task waits" if tasks == 1 else f"{tasks} tasks wait"
        output.say(f"{waiting} for pool {name!r}, which does not exist; create it with `tidegate pools set`")


@app.command(
    "set",
    context_settings={"ignore_unknown_options": True},
    epilog=examples("tidegate pools set reports 4", "tidegate pools set reports -1   # no limit"),
)
def set_(
    context: typer.Context,
    name: Name,
    slots: Annotated[int, typer.Argument(metavar="SLOTS", min=UNLIMITED, max=MOST_SLOTS, help="How many slots; -1 is no limit.")],
    *,
    json: Json = False,
) -> None:
    """Create a pool, or change its number of slots. The user is recorded.

    Active tasks continue, also when more slots are taken than the pool has now.
    """
    _check_name(name)
    user = current_user(read_settings(context))

    async def change(db: Db) -> int | None:
        before = await pools.slots_of(db, name)
        if before != slots:
            await pools.set_slots(db, name, slots)
            action = "created a pool" if before is None else "changed a pool"
            await pools.record(db, user, action, name, {"slots": slots, "slots_before": before})
        return before

    before = with_database(context, lambda database: _change(database, change))
    output.write_result({"name": name, "slots": slots, "slots_before": before}, change_text(name, slots, before), json=json)


@app.command(epilog=examples("tidegate pools delete reports"))
def delete(context: typer.Context, name: Name, *, json: Json = False) -> None:
    """Delete a pool without active or waiting tasks. The user is recorded."""
    user = current_user(read_settings(context))

    async def delete_unused(db: Db) -> list[str]:
        slots = await _deletable(db, name)
        await pools.delete(db, name)
        await pools.record(db, user, "deleted a pool", name, {"slots_before": slots})
        return await pools.dags_with(db, name)

    dags = with_database(context, lambda database: _change(database, delete_unused))
    output.write_result({"name": name, "dags": dags}, f"deleted {name}", json=json)
    if dags:
        output.say(f"tasks of {', '.join(dags)} still name the pool; they wait until it exists again")


async def _change(database: "Database", change: Callable[[Db], Awaitable[T]]) -> T:
    """Run `change` in one transaction, then notify the daemons, which admit tasks."""
    from tidegate.daemon.request import notify_daemons
    from tidegate.daemon.work import Work

    result = await database.run(change)
    await notify_daemons(database, Work.ADMIT)
    return result


async def _deletable(db: Db, name: str) -> int:
    """The slots of a pool that may be deleted; locks its row. Raises RequestError for any other."""
    if name == DEFAULT_POOL:
        raise RequestError(f"{name} cannot be deleted: it is the pool of all tasks that name none")
    slots = await pools.slots_of(db, name)
    if slots is None:
        known = ", ".join(pool.name for pool in await pools.list_pools(db))
        raise RequestError(f"there is no pool {name!r}; the pools are {known}")
    if tasks := await pools.tasks_in(db, name):
        there = "1 task is" if tasks == 1 else f"{tasks} tasks are"
        raise RequestError(f"{there} in pool {name!r}, active or waiting; delete it when they have ended")
    return slots


def _check_name(name: str) -> None:
    if not name.isprintable() or not 1 <= len(name) <= LONGEST_NAME:
        raise typer.BadParameter(f"a name is 1 to {LONGEST_NAME} printable characters", param_hint="NAME")
