"""`tidegate losses`: commits that were acknowledged, and that a server which took over does not have."""

from datetime import datetime
from typing import Annotated

import typer

from tidegate.daemon.cli.command import Json, examples, noun
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query, query_at, settings_of, who
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import losses
from tidegate.schemas.queries.losses import LossRow
from tidegate.schemas.timetable.text import age

app = noun("List acknowledged commits that Postgres has lost; say that they are seen to.")

TITLES = ("ID", "COMMITTED AFTER", "UNTIL", "TIMELINE", "FOUND", "AGE", "FOUND BY", "SETTLED", "BY", "BECAUSE")

Id = Annotated[int, typer.Argument(metavar="ID", help="As `tidegate losses list` shows it.")]
Because = Annotated[str, typer.Option(metavar="TEXT", help="What was done about it; it is kept with it.")]


@app.command("list", epilog=examples("tidegate losses list", "tidegate losses list --all --json"))
def list_(
    context: typer.Context,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Those that are settled, too.")] = False,
    json: Json = False,
) -> None:
    """List losses: when what is missing was committed, newest first."""
    found, now = query_at(context, losses.list_losses, settled=all_)
    if json:
        output.write_json(found)
    else:
        output.table(TITLES, (_cells(loss, now) for loss in found), empty="no commits were lost")


@app.command(epilog=examples('tidegate losses settle 1 --because "the runs of that minute were looked through"'))
def settle(context: typer.Context, id_: Id, *, because: Because, json: Json = False) -> None:
    """Say that a loss was seen to: submissions are no longer looked for first, and nobody is reminded. Who did it is recorded."""
    if not because.strip() or "\0" in because:
        raise typer.BadParameter("a few words are needed that say what was done", param_hint="--because")
    user = who(settings_of(context, "postgres_dsn"))
    if not query(context, losses.settle, id_, user, because):
        raise RequestError(f"there is no open loss {id_}; `tidegate losses list --all` shows all there were")
    if json:
        output.write_json({"id": id_, "settled_by": user, "settled_because": because})
    else:
        output.write(f"loss {id_} is settled")


def _cells(loss: LossRow, now: datetime) -> tuple[output.Cell, ...]:
    found = (loss.id, loss.since, loss.until, loss.timeline, loss.found_at, age(loss.found_at, now), loss.found_by)
    return (*found, loss.settled_at, loss.settled_by, loss.settled_because)
