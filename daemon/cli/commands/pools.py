"""`tidegate pools`: slots that limit how many tasks are active at once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.daemon.cli.command import Json, command_group, examples
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.pools import change_text, document, print_changes, print_pools, print_queue
from tidegate.daemon.cli.session import at, query, read_settings, remote, shown, with_database
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.read_model.queue import PoolQueue, read_queue
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import pools
from tidegate.schemas.queries.counting import tasks_wait
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.pools import MOST_SLOTS, NAME_RULE, UNLIMITED, ChangedPool, DeletedPool, PoolRow

if TYPE_CHECKING:
    from tidegate.daemon.pool_file import PoolChange

app = command_group()

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="1 to 250 printable characters; not . or .., nor one that ends with /queue.")
]


@app.command("list", epilog=examples("tidegate pools list", "tidegate pools list --json | jq '.[] | select(.open == 0)'"))
def list_(context: typer.Context, *, json: Json = False) -> None:
    """List pools. All numbers are slots: of running tasks, of tasks queued at a backend, of waiting tasks, and open ones."""

    async def read(db: Db) -> tuple[list[PoolRow], Mapping[str, int]]:
        return await pools.list_pools(db), await pools.missing(db)

    server = remote(context)
    if server is None:
        found, missing = query(context, read)
    else:
        from tidegate.daemon.read_model.system import System

        found, missing = server.rows("/pools", PoolRow, None, {}), server.read("/system", System).missing_pools
    output.write_page([document(pool) for pool in found], lambda: print_pools(found), json=json)
    for name, tasks in missing.items():
        output.say(f"{tasks_wait(tasks)} for pool {name!r}, which does not exist; create it with `tidegate pools set`")


@app.command(epilog=examples("tidegate pools queue default_pool", "tidegate pools queue reports --limit 500 --json"))
def queue(
    context: typer.Context,
    name: Name,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="The most tasks to print.")] = 50,
    json: Json = False,
) -> None:
    """List the tasks that wait for slots of a pool, in the order of the queue, and what each waits for."""
    settings = read_settings(context)

    async def read(db: Db) -> PoolQueue:
        return await read_queue(db, name, settings, limit)

    found, now = shown(context, at("pools", name, "queue"), PoolQueue, read, limit=limit)
    output.write_page(found, lambda: print_queue(found, now), json=json)


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
    before = _set(context, name, slots)
    output.write_result({"name": name, "slots": slots, "slots_before": before}, change_text(name, slots, before), json=json)


@app.command(
    "apply", epilog=examples("tidegate pools apply pools.toml --dry-run", "tidegate pools apply pools.toml --prune --json")
)
def apply_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML with a table [pools]: a line such as reports = 4 each.")],
    *,
    prune: Annotated[bool, typer.Option("--prune", help="Also delete the pools that the file lacks.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; exit code 4 if there is something to change.")
    ] = False,
    json: Json = False,
) -> None:
    """Create and change pools as a file has them. The user is recorded with each change.

    A pool that cannot be deleted, such as one with waiting tasks, stays; the others are changed, and the exit code is 1.
    """
    from tidegate.daemon.pool_file import changes, read_pools

    wanted = read_pools(file)
    found = changes({pool.name: pool for pool in _known(context)}, wanted, prune=prune)
    refused = {} if dry_run else {change.name: problem for change in found if (problem := _apply(context, change))}
    done = [change for change in found if change.name not in refused]
    output.write_page(found if dry_run else done, lambda: print_changes(done, of=len(wanted)), json=json)
    for name, problem in refused.items():
        output.say(f"{name}: {problem}")
    if dry_run and found:
        raise typer.Exit(4)
    if refused:
        raise typer.Exit(1)


def _known(context: typer.Context) -> Sequence[PoolRow]:
    server = remote(context)
    return query(context, pools.list_pools) if server is None else server.rows("/pools", PoolRow, None, {})


def _apply(context: typer.Context, change: "PoolChange") -> str:
    """Why a change is refused; empty for one that was made."""
    try:
        if change.slots is None:
            _delete(context, change.name)
        else:
            _set(context, change.name, change.slots)
    except RequestError as error:
        return str(error)
    return ""


@app.command(epilog=examples("tidegate pools delete reports"))
def delete(context: typer.Context, name: Name, *, json: Json = False) -> None:
    """Delete a pool without active or waiting tasks. The user is recorded."""
    dags = _delete(context, name)
    output.write_result({"name": name, "dags": dags}, f"deleted {name}", json=json)
    if dags:
        output.say(f"tasks of {', '.join(dags)} still name the pool; they wait until it exists again")


def _set(context: typer.Context, name: str, slots: int) -> int | None:
    """Set the slots of a pool. Returns its former slots, None for a new pool."""
    from tidegate.daemon import pools as changes

    user, server = current_user(read_settings(context)), remote(context)
    if server is None:
        return with_database(context, lambda database: changes.set_slots(database, user, name, slots))
    return server.change("PUT", at("pools", name), ChangedPool, {"slots": slots}, {}).slots_before


def _delete(context: typer.Context, name: str) -> list[str]:
    """Delete a pool; returns the DAGs that still name it."""
    from tidegate.daemon import pools as changes

    user, server = current_user(read_settings(context)), remote(context)
    if server is None:
        return with_database(context, lambda database: changes.delete(database, user, name))
    return server.change("DELETE", at("pools", name), DeletedPool, {}, {}).dags


def _check_name(name: str) -> None:
    if not pools.is_name(name):
        raise typer.BadParameter(NAME_RULE, param_hint="NAME")
