"""`tidegate losses`: acknowledged commits that are missing on the server which took over."""

from typing import Annotated

import typer

from tidegate.daemon.cli.command import MAX_ID, Json, check_reason, command_group, examples
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.lists import LOSSES, print_list
from tidegate.daemon.cli.session import at, changed, listed, read_settings
from tidegate.daemon.identity.local_user import current_user
from tidegate.schemas.queries import losses
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.losses import LossRow

app = command_group()

Id = Annotated[int, typer.Argument(metavar="ID", min=1, max=MAX_ID, help="The id, as `tidegate losses list` shows it.")]
Because = Annotated[str, typer.Option(metavar="TEXT", help="What was done about it; recorded with it.")]


@app.command("list", epilog=examples("tidegate losses list", "tidegate losses list --all --json"))
def list_(
    context: typer.Context,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Also settled losses.")] = False,
    json: Json = False,
) -> None:
    """List losses, newest first, with the time in which the missing commits were made."""

    async def read(db: Db) -> list[LossRow]:
        return await losses.list_losses(db, settled=all_)

    print_list(LOSSES, *listed(context, "/losses", LossRow, read, settled=all_), json=json)


@app.command(epilog=examples('tidegate losses settle 1 --because "the runs of that minute were checked"'))
def settle(context: typer.Context, id_: Id, *, because: Because, json: Json = False) -> None:
    """Mark a loss as dealt with: reminders stop, and so does the search on the backends before each submission.

    The user and the reason are recorded. Exit code 1 if the loss is unknown or settled.
    """
    check_reason("--because", because)
    user = current_user(read_settings(context))
    change = "POST", at("losses", id_, "settle")
    body = {"because": because}
    loss = changed(context, change, LossRow, lambda database: database.run(losses.settle, id_, user, because), body)
    document = {"id": id_, "settled_by": loss.settled_by, "settled_because": loss.settled_because}
    output.write_result(document, f"loss {id_} is settled", json=json)
