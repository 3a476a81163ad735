"""`tidegate backfills`: runs for past dates, as one thing that is created, followed and changed."""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import typer

from tidegate.daemon.cli.command import (
    DagId,
    Json,
    Limit,
    Yes,
    command_group,
    confirm,
    examples,
    parse_end,
    parse_json_object,
    parse_time,
    shared_options,
)
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query_at, read_settings, with_database
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.read_model.lookup import list_of_dag
from tidegate.schemas.backfill import LAST_PRIORITY, BackfillSpec, Outlets, Reprocess
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import backfill_pages
from tidegate.schemas.queries.backfill_pages import BackfillRow, DateRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BackfillState, DateState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tidegate.daemon.postgres.database import Database
    from tidegate.daemon.settings import Settings

app = command_group()

Id = Annotated[int, typer.Argument(metavar="ID", min=1, help="The number of the backfill.")]


class LimitOptions(TypedDict):
    """The limits of a backfill."""

    max_active_runs: Annotated[int | None, typer.Option(metavar="N", help="The most runs at once. Default: 10.")]
    max_active_tasks: Annotated[int | None, typer.Option(metavar="N", help="The most active tasks of all its runs together.")]
    share: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="The most slots of a pool for its tasks, in percent of the pool.")
    ]
    pool: Annotated[str | None, typer.Option(metavar="NAME", help="The pool of its tasks. Default: the pools they name.")]
    priority: Annotated[
        int | None,
        typer.Option(
            metavar="N", help=f"Added to the weights of its tasks; 0 is that of other runs. Default: {LAST_PRIORITY}, after all."
        ),
    ]
    max_failed_runs: Annotated[
        int | None, typer.Option(metavar="N", help="Stop after so many failed dates. 0: never. Default: 0.")
    ]


def _limits(options: LimitOptions) -> dict[str, Any]:
    """The limits that were given."""
    given = {name: value for name, value in options.items() if value is not None}
    if options["share"] is not None:
        given["share"] = options["share"] / 100
    return given


@app.command(
    epilog=examples(
        "tidegate backfills create daily_delays --from 2013-01-01 --to 2013-01-31",
        "tidegate backfills create daily_delays --from 2013-01-01 --to 2013-01-31 --reprocess completed --dry-run",
        "tidegate backfills create daily_delays --date 2013-01-05 --date 2013-01-09 --watch",
    )
)
@shared_options(LimitOptions)
def create(
    context: typer.Context,
    dag_id: DagId,
    *,
    start: Annotated[
        datetime | None,
        typer.Option("--from", parser=parse_time, metavar="TIME", help="The first logical date, UTC without an offset."),
    ] = None,
    end: Annotated[
        datetime | None,
        typer.Option("--to", parser=parse_end, metavar="TIME", help="The last logical date, included; a day is included whole."),
    ] = None,
    date: Annotated[
        list[datetime] | None,
        typer.Option(parser=parse_time, metavar="TIME", help="One logical date, instead of a range; may be repeated."),
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Begin with the newest date.")] = False,
    reprocess: Annotated[
        Reprocess, typer.Option(help="Which existing runs run again: none, failed ones, or all that have ended.")
    ] = Reprocess.NONE,
    conf: Annotated[str, typer.Option(metavar="JSON", help="A JSON object, which tasks read as `run.params`.")] = "{}",
    outlets: Annotated[
        Outlets,
        typer.Option(
            help="What consumers of its outlets get: the usual events, nothing, or also another run where they consumed what"
            " is rewritten."
        ),
    ] = Outlets.EVENTS,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would happen to each date; change nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it to its end; exit code 1 unless it succeeded.")] = False,
    limit: Limit = 100,
    json: Json = False,
    **options: Unpack[LimitOptions],
) -> None:
    """Run a DAG for past dates, with its newest version. Runs appear as there is room, beside those of the schedule.

    A date has one run: existing ones stay as they are, or run again as --reprocess says. Dates in the future get none.
    """
    from tidegate.daemon import backfills

    _check_dates(start, end, date)
    dates = sorted(set(date or ()))
    first, last = (dates[0], dates[-1]) if dates else (start, end)
    if first is None or last is None:
        raise typer.BadParameter("give --from and --to, or --date", param_hint="--from")
    spec = _checked(
        options,
        dag_id=dag_id,
        start_date=first,
        end_date=last,
        logical_dates=tuple(dates) or None,
        dag_params=parse_json_object("--conf", conf),
        reprocess=reprocess,
        is_reverse=reverse,
        outlets=outlets,
        description=description,
    )
    if dry_run:
        _dry_run(context, spec, limit, json=json)
        return
    settings = read_settings(context)

    async def work(database: "Database") -> BackfillRow:
        row = await backfills.create(database, settings, current_user(settings), spec)
        if not json:
            output.write(f"created backfill {row.id} of {dag_id}")
        return await _watched(database, row) if watch else row

    row = with_database(context, work)
    if json:
        output.write_json(row)
    if watch and row.state != BackfillState.SUCCESS:
        raise typer.Exit(1)


def _check_dates(start: datetime | None, end: datetime | None, dates: list[datetime] | None) -> None:
    if bool(dates) == (start is not None or end is not None):
        raise typer.BadParameter("give either --from and --to, or --date", param_hint="--from")


def _checked(options: LimitOptions, **spec: Any) -> BackfillSpec:
    from tidegate.daemon.backfills import checked

    try:
        return checked(BackfillSpec(**spec, **_limits(options)))
    except RequestError as error:
        raise typer.BadParameter(str(error)) from error


def _dry_run(context: typer.Context, spec: BackfillSpec, limit: int, *, json: bool) -> None:
    from tidegate.daemon import backfills
    from tidegate.daemon.cli.pages.backfill import print_preview

    async def work(database: "Database") -> backfills.Preview:
        return await backfills.preview(database, spec, limit)

    found = with_database(context, work)
    output.write_page(found, partial(print_preview, found), json=json)


@app.command("list", epilog=examples("tidegate backfills list --state running", "tidegate backfills list daily_delays --json"))
def list_(
    context: typer.Context,
    dag_id: Annotated[str | None, typer.Argument(metavar="DAG", help="Only this DAG.")] = None,
    *,
    state: Annotated[BackfillState | None, typer.Option(help="Only backfills in this state.")] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Also deleted ones.")] = False,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List backfills, newest first."""
    from tidegate.daemon.cli.pages.backfill import BACKFILLS
    from tidegate.daemon.cli.pages.lists import print_list

    async def read(db: Db) -> list[BackfillRow]:
        return await list_of_dag(db, backfill_pages.list_backfills, dag_id, limit=limit, state=state, deleted=deleted)

    print_list(BACKFILLS, *query_at(context, read), json=json)


@app.command(epilog=examples("tidegate backfills show 3"))
def show(context: typer.Context, backfill_id: Id, *, json: Json = False) -> None:
    """Show a backfill: what was asked for, how far it has come, why it waits, and its last dates."""
    from tidegate.daemon.cli.pages.backfill import print_page, read_page

    page, now = query_at(context, read_page, backfill_id)
    output.write_page(page, partial(print_page, page, now), json=json)


@app.command(epilog=examples("tidegate backfills dates 3 --state failed", "tidegate backfills dates 3 --json -n 1000"))
def dates(
    context: typer.Context,
    backfill_id: Id,
    *,
    state: Annotated[DateState | None, typer.Option(help="Only dates in this state.")] = None,
    after: Annotated[int, typer.Option(metavar="ORDINAL", min=0, help="Only dates after this one.")] = 0,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List the planned dates of a backfill in their order, each with its run, or with the reason why it has none."""
    from tidegate.daemon.backfills import read_backfill
    from tidegate.daemon.cli.pages.backfill import DATES
    from tidegate.daemon.cli.pages.lists import print_list

    async def read(db: Db) -> list[DateRow]:
        await read_backfill(db, backfill_id, deleted=True)
        return await backfill_pages.list_dates(db, backfill_id, state, after, limit)

    print_list(DATES, *query_at(context, read), json=json)


@app.command(epilog=examples("tidegate backfills watch 3"))
def watch(context: typer.Context, backfill_id: Id, *, json: Json = False) -> None:
    """Follow a backfill to its end, with a line of progress. Exit code 1 unless it succeeded."""
    from tidegate.daemon.backfills import get

    async def work(database: "Database") -> BackfillRow:
        return await _watched(database, await get(database, backfill_id))

    row = with_database(context, work)
    output.write_result(row, f"backfill {row.id} ended as {row.state}", json=json)
    if row.state != BackfillState.SUCCESS:
        raise typer.Exit(1)


async def _watched(database: "Database", row: BackfillRow) -> BackfillRow:
    from tidegate.daemon.cli.pages.follow import follow_backfill

    return await follow_backfill(database, row)


@app.command(epilog=examples("tidegate backfills pause 3"))
def pause(context: typer.Context, backfill_id: Id, *, json: Json = False) -> None:
    """Start no more runs of a backfill. Its running runs go on."""
    from tidegate.daemon import backfills

    _act(context, backfill_id, backfills.pause, "paused", json=json)


@app.command(epilog=examples("tidegate backfills resume 3"))
def resume(context: typer.Context, backfill_id: Id, *, json: Json = False) -> None:
    """Resume a paused backfill."""
    from tidegate.daemon import backfills

    _act(context, backfill_id, backfills.resume, "resumed", json=json)


@app.command(epilog=examples("tidegate backfills cancel 3", "tidegate backfills cancel 3 --kill"))
def cancel(
    context: typer.Context,
    backfill_id: Id,
    *,
    kill: Annotated[bool, typer.Option("--kill", help="Also end its running runs; their attempts are killed.")] = False,
    json: Json = False,
) -> None:
    """End a backfill: its queued runs fail, its running runs go on to their end, and its other dates get no run."""
    from tidegate.daemon import backfills

    _act(context, backfill_id, partial(backfills.cancel, kills=kill), "cancelled", json=json)


@app.command(epilog=examples("tidegate backfills retry 3", "tidegate backfills retry 3 --newest-version"))
def retry(
    context: typer.Context,
    backfill_id: Id,
    *,
    newest_version: Annotated[
        bool, typer.Option("--newest-version", help="With the newest version of the DAG, also for dates to come.")
    ] = False,
    json: Json = False,
) -> None:
    """Run the failed dates of a backfill again: their failed tasks, and what follows these."""
    from tidegate.daemon import backfills

    _act(context, backfill_id, partial(backfills.retry, newest_version=newest_version), "retries the failed dates of", json=json)


@app.command(epilog=examples("tidegate backfills delete 3 --yes"))
def delete(context: typer.Context, backfill_id: Id, *, yes: Yes = False, json: Json = False) -> None:
    """Delete an ended backfill with its list of dates. Its runs stay."""
    from tidegate.daemon import backfills

    if not yes:
        confirm("delete", f"backfill {backfill_id}")
    _act(context, backfill_id, backfills.delete, "deleted", json=json)


@app.command(
    "set",
    epilog=examples("tidegate backfills set 3 --max-active-runs 4", "tidegate backfills set 3 --to 2013-02-28 --share 25"),
)
@shared_options(LimitOptions)
def set_(
    context: typer.Context,
    backfill_id: Id,
    *,
    end: Annotated[
        datetime | None, typer.Option("--to", parser=parse_end, metavar="TIME", help="A later last logical date.")
    ] = None,
    json: Json = False,
    **options: Unpack[LimitOptions],
) -> None:
    """Change the limits of a backfill while it runs, or add dates at its end."""
    from tidegate.daemon import backfills

    limits, settings = _limits(options), read_settings(context)
    if not limits and end is None:
        raise typer.BadParameter("give a limit, or --to")

    async def work(database: "Database") -> BackfillRow:
        return await backfills.change(database, settings, current_user(settings), backfill_id, limits, end)

    output.write_result(with_database(context, work), f"changed backfill {backfill_id}", json=json)


def _act(
    context: typer.Context,
    id_: int,
    act: "Callable[[Database, Settings, str, int], Awaitable[BackfillRow]]",
    done: str,
    *,
    json: bool,
) -> None:
    settings = read_settings(context)

    async def work(database: "Database") -> BackfillRow:
        return await act(database, settings, current_user(settings), id_)

    output.write_result(with_database(context, work), f"{done} backfill {id_}", json=json)
