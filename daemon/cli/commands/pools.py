"""`tidegate pools`: slots that limit how many tasks are active at once."""

from collections.abc import Mapping
from typing import Annotated

import typer

from tidegate.daemon.cli.command import Json, command_group, examples
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.pools import change_text, document, print_pools, print_queue
from tidegate.daemon.cli.session import at, query, read_settings, remote, shown, with_database
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.read_model.queue import PoolQueue, read_queue
from tidegate.schemas.queries import pools
from tidegate.schemas.queries.counting import tasks_wait
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.pools import NAME_RULE, UNLIMITED, ChangedPool, DeletedPool, PoolRow

app = command_group()

MOST_SLOTS = 2**31 - 1

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
    from tidegate.daemon import pools as changes

    _check_name(name)
    user = current_user(read_settings(context))

    server = remote(context)
    if server is None:
        before = with_database(context, lambda database: changes.set_slots(database, user, name, slots))
    else:
        before = server.change("PUT", at("pools", name), ChangedPool, {"slots": slots}, {}).slots_before
    output.write_result({"name": name, "slots": slots, "slots_before": before}, change_text(name, slots, before), json=json)


@app.command(epilog=examples("tidegate pools delete reports"))
def delete(context: typer.Context, name: Name, *, json: Json = False) -> None:
    """Delete a pool without active or waiting tasks. The user is recorded."""
    from tidegate.daemon import pools as changes

    user = current_user(read_settings(context))

    server = remote(context)
    if server is None:
        dags = with_database(context, lambda database: changes.delete(database, user, name))
    else:
        dags = server.change("DELETE", at("pools", name), DeletedPool, {}, {}).dags
    output.write_result({"name": name, "dags": dags}, f"deleted {name}", json=json)
    if dags:
        output.say(f"tasks of {', '.join(dags)} still name the pool; they wait until it exists again")


def _check_name(name: str) -> None:
    if not pools.is_name(name):
        raise typer.BadParameter(NAME_RULE, param_hint="NAME")
