"""`tidegate backfills`: runs for past dates, as one thing that is created, followed and changed."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from tidegate.daemon.cli.command import (
    MAX_ID,
    DagId,
    Json,
    Limit,
    OnlyDag,
    Yes,
    command_group,
    confirm,
    examples,
    parse_end,
    parse_json_object,
    parse_time,
    shared_options,
)
from tidegate.daemon.cli.commands.backfill_spec import IgnoreFirst, LimitOptions, body_of, check_dates, checked_spec, limits_of
from tidegate.daemon.cli.commands.backfill_watch import watched
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import at, changed, listed, read_settings, shown
from tidegate.daemon.identity.local_user import local_caller
from tidegate.daemon.read_model.lookup import list_of_dag
from tidegate.schemas.backfill import MAX_ORDINAL, BackfillSpec, Outlets, Reprocess
from tidegate.schemas.queries import backfill_pages
from tidegate.schemas.queries.backfill_pages import BackfillRow, DateRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BackfillState, DateState

if TYPE_CHECKING:
    from tidegate.daemon import backfills
    from tidegate.daemon.postgres.database import Database

app = command_group()

Id = Annotated[int, typer.Argument(metavar="ID", min=1, max=MAX_ID, help="The number of the backfill.")]


@app.command(
    epilog=examples(
        "tidegate backfills create daily_sales --from 2013-01-01 --to 2013-01-31",
        "tidegate backfills create daily_sales --from 2013-01-01 --to 2013-01-31 --reprocess completed --dry-run",
        "tidegate backfills create daily_sales --date 2013-01-05 --date 2013-01-09 --watch",
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
            help="What consumers of its outlets get: the usual events, nothing, or the usual events and another run of each run"
            " that consumed what is rewritten."
        ),
    ] = Outlets.EVENTS,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "",
    ignore_first: IgnoreFirst = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would happen to each date; change nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it to its end; exit code 1 unless it succeeded.")] = False,
    limit: Limit = 100,
    json: Json = False,
    **options: Unpack[LimitOptions],
) -> None:
    """Run a DAG for past dates, with its newest version, beside the runs of the schedule.

    A date has one run: existing ones stay as they are, or run again as --reprocess says. Dates in the future get none.
    """
    check_dates(start, end, date)
    dates = sorted(set(date or ()))
    first, last = (dates[0], dates[-1]) if dates else (start, end)
    if first is None or last is None:
        raise typer.BadParameter("give --from and --to, or --date", param_hint="--to" if end is None else "--from")
    spec = checked_spec(
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
        ignore_first_depends_on_past=ignore_first,
    )
    if dry_run:
        _dry_run(context, spec, limit, json=json)
        return
    row = _created(context, spec, watch=watch, json=json)
    if json:
        output.write_json(row)
    if watch and row.state != BackfillState.SUCCESS:
        raise typer.Exit(1)


def _created(context: typer.Context, spec: BackfillSpec, *, watch: bool, json: bool) -> BackfillRow:
    from tidegate.daemon import backfills

    settings = read_settings(context)

    async def work(database: "Database") -> BackfillRow:
        return await backfills.create(database, settings, local_caller(settings), spec)

    row = changed(context, ("POST", "/backfills"), BackfillRow, work, body_of(spec))
    if not json:
        output.write(f"created backfill {row.id} of {row.dag_id}")
    return watched(context, row.id) if watch else row


def _dry_run(context: typer.Context, spec: BackfillSpec, limit: int, *, json: bool) -> None:
    from tidegate.daemon import backfills
    from tidegate.daemon.cli.pages.backfill import print_preview
    from tidegate.daemon.read_model.backfill_preview import Preview
    from tidegate.daemon.read_model.backfill_progress import MOST_COUNTED

    async def work(database: "Database") -> Preview:
        return await backfills.preview(database, spec, limit)

    # The API lists as many dates as a preview counts.
    served = min(limit, MOST_COUNTED)
    found = changed(context, ("POST", "/backfills/preview"), Preview, work, body_of(spec), limit=served)
    output.write_page(found, partial(print_preview, found), json=json)


@app.command("list", epilog=examples("tidegate backfills list --state running", "tidegate backfills list daily_sales --json"))
def list_(
    context: typer.Context,
    dag_id: OnlyDag = None,
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

    filters = {"dag_id": dag_id, "state": state, "deleted": deleted}
    print_list(BACKFILLS, *listed(context, "/backfills", BackfillRow, read, limit, **filters), json=json)


@app.command(epilog=examples("tidegate backfills show 3"))
def show(context: typer.Context, backfill_id: Id, *, json: Json = False) -> None:
    """Show a backfill: what was asked for, how far it has come, why it waits, and its last dates."""
    from tidegate.daemon.cli.pages.backfill import print_page
    from tidegate.daemon.read_model.backfill import BackfillPage, read_backfill_page

    settings = read_settings(context)

    async def read(db: Db) -> BackfillPage:
        return await read_backfill_page(db, backfill_id, settings)

    page, now = shown(context, at("backfills", backfill_id), BackfillPage, read)
    output.write_page(page, partial(print_page, page, now), json=json)


@app.command(epilog=examples("tidegate backfills dates 3 --state failed", "tidegate backfills dates 3 --json -n 1000"))
def dates(
    context: typer.Context,
    backfill_id: Id,
    *,
    state: Annotated[DateState | None, typer.Option(help="Only dates in this state.")] = None,
    after: Annotated[
        int,
        typer.Option(metavar="ORDINAL", min=0, max=MAX_ORDINAL, help="Only dates after this number of the first column."),
    ] = 0,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List the planned dates of a backfill in their order.

    Each date has its run, and what the run waits for or why it failed; or the reason why the date has no run.
    """
    from tidegate.daemon.cli.pages.backfill import DATES
    from tidegate.daemon.cli.pages.lists import print_list
    from tidegate.daemon.read_model.backfill import read_backfill
    from tidegate.daemon.read_model.backfill_reasons import with_reasons

    settings = read_settings(context)

    async def read(db: Db) -> list[DateRow]:
        row = await read_backfill(db, backfill_id, deleted=True)
        return await with_reasons(db, row, await backfill_pages.list_dates(db, backfill_id, state, after, limit), settings)

    path = at("backfills", backfill_id, "dates")
    print_list(DATES, *listed(context, path, DateRow, read, limit, state=state, after=after), json=json)


@app.command(epilog=examples("tidegate backfills watch 3"))
def watch(context: typer.Context, backfill_id: Id, *, json: Json = False) -> None:
    """Follow a backfill to its end, with a line of progress. Exit code 1 unless it succeeded."""
    row = watched(context, backfill_id)
    output.write_result(row, f"backfill {row.id} ended as {row.state}", json=json)
    if row.state != BackfillState.SUCCESS:
        raise typer.Exit(1)


@app.command(epilog=examples("tidegate backfills pause 3"))
def pause(context: typer.Context, backfill_id: Id, *, json: Json = False) -> None:
    """Start no more runs of a backfill. Its running runs go on."""
    from tidegate.daemon import backfills
    from tidegate.daemon.cli.pages import backfill_changes

    _act(context, backfill_id, ("POST", "pause"), backfills.pause, backfill_changes.paused, json=json)


@app.command(epilog=examples("tidegate backfills resume 3"))
def resume(context: typer.Context, backfill_id: Id, *, json: Json = False) -> None:
    """Resume a paused backfill."""
    from tidegate.daemon import backfills
    from tidegate.daemon.cli.pages import backfill_changes

    _act(context, backfill_id, ("POST", "resume"), backfills.resume, backfill_changes.resumed, json=json)


@app.command(epilog=examples("tidegate backfills cancel 3", "tidegate backfills cancel 3 --kill"))
def cancel(
    context: typer.Context,
    backfill_id: Id,
    *,
    kill: Annotated[bool, typer.Option("--kill", help="Also end its running runs; their attempts are killed.")] = False,
    json: Json = False,
) -> None:
    """End a backfill: its runs at work go on to their end, its other runs fail, and its other dates get no run."""
    from tidegate.daemon import backfills
    from tidegate.daemon.cli.pages import backfill_changes

    act, body = partial(backfills.cancel, kills=kill), {"kill": kill}
    done = partial(backfill_changes.cancelled, kills=kill)
    _act(context, backfill_id, ("POST", "cancel"), act, done, json=json, body=body)


@app.command(epilog=examples("tidegate backfills retry 3", "tidegate backfills retry 3 --newest-version"))
def retry(
    context: typer.Context,
    backfill_id: Id,
    *,
    newest_version: Annotated[
        bool, typer.Option("--newest-version", help="Run failed dates and dates to come with the newest version of the DAG.")
    ] = False,
    json: Json = False,
) -> None:
    """Run the failed dates of a backfill again: the failed tasks, and the tasks after these.

    Cancelled dates run again with all their tasks, and dates that are not planned yet follow.
    """
    from tidegate.daemon import backfills
    from tidegate.daemon.cli.pages import backfill_changes

    act, body = partial(backfills.retry, newest_version=newest_version), {"newest_version": newest_version}
    _act(context, backfill_id, ("POST", "retry"), act, backfill_changes.retried, json=json, body=body)


@app.command(epilog=examples("tidegate backfills delete 3 --yes"))
def delete(context: typer.Context, backfill_id: Id, *, yes: Yes = False, json: Json = False) -> None:
    """Delete an ended backfill with its list of dates. Its runs stay."""
    from tidegate.daemon import backfills

    if not yes:
        confirm("delete", f"backfill {backfill_id}")
    _act(context, backfill_id, ("DELETE", ""), backfills.delete, lambda row: f"deleted backfill {row.id}", json=json)


@app.command(
    "set",
    epilog=examples("tidegate backfills set 3 --max-active-runs 4 --pool none", "tidegate backfills set 3 --to 2013-02-28"),
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
    """Change the limits of a backfill, or add dates at its end. What is left out stays as it is.

    A backfill that stopped after failed dates goes on as soon as its --max-failed-runs allows more of them.
    """
    from tidegate.daemon import backfills
    from tidegate.daemon.cli.pages.backfill_changes import changed as answer
    from tidegate.daemon.read_model.backfill_effects import ChangedBackfill

    limits, settings = limits_of(options), read_settings(context)
    if not limits and end is None:
        raise typer.BadParameter("give a limit, or --to")

    async def work(database: "Database") -> ChangedBackfill:
        return await backfills.change(database, settings, local_caller(settings), backfill_id, limits, end)

    body = {"limits": limits, "end_date": end}
    row = changed(context, ("PATCH", at("backfills", backfill_id)), ChangedBackfill, work, body)
    output.write_result(row, answer(row, limits, extends=end is not None), json=json)


def _act(
    context: typer.Context,
    id_: int,
    change: tuple[str, str],
    act: "backfills.Action",
    done: Callable[[BackfillRow], str],
    *,
    json: bool,
    body: Mapping[str, Any] | None = None,
) -> None:
    """Act on a backfill: by `act`, or by the API of the server. `change` is the method there, and the end of the path.

    `done` makes the answer for people.
    """
    settings, (method, verb) = read_settings(context), change

    async def work(database: "Database") -> BackfillRow:
        return await act(database, settings, local_caller(settings), id_)

    path = at("backfills", id_, verb) if verb else at("backfills", id_)
    row = changed(context, (method, path), BackfillRow, work, body)
    output.write_result(row, done(row), json=json)
