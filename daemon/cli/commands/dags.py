"""`tidegate dags`: list, show, explain, pause, unpause and delete DAGs, print their next runs, publish changed files."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from tidegate.daemon.cli.command import DagId, Json, Limit, Yes, command_group, examples
from tidegate.daemon.cli.commands import dag_files
from tidegate.daemon.cli.commands.dag_test import try_dag
from tidegate.daemon.cli.pages import output, tree
from tidegate.daemon.cli.pages.dag import print_history, print_list, print_page
from tidegate.daemon.cli.pages.plan import print_planned
from tidegate.daemon.cli.session import at, changed, listed, query, query_at, read_settings, remote, shown
from tidegate.daemon.read_model.dag import DagPage, ListedDag, read_list, read_page
from tidegate.daemon.read_model.history import DagHistory, read_history
from tidegate.daemon.read_model.lookup import broken_files, find_timed_dag
from tidegate.daemon.read_model.plan import UTC_CLOCK, Planned, first_tick_from, list_planned, period_of, planned, timezone_of
from tidegate.daemon.settings import dags_root
from tidegate.schemas.dag import ARCHIVE
from tidegate.schemas.queries import dag_pages
from tidegate.schemas.queries.dag_pages import DagRow, ImportErrorRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.time_range import EARLIEST, LATEST
from tidegate.schemas.timetable.text import local, utc
from tidegate.schemas.timetable.wallclock import zone
from tidegate.schemas.view import DagView

app = command_group()

HISTORY_RUNS = 100
"""The last runs that `history` has in JSON."""


@app.command("list", epilog=examples("tidegate dags list", "tidegate dags list --json | jq -r '.[].dag_id'"))
def list_(context: typer.Context, *, json: Json = False) -> None:
    """List DAGs. NEXT is when the next run by time is due."""

    async def read(db: Db) -> tuple[list[ListedDag], list[ImportErrorRow]]:
        return await read_list(db), await dag_pages.list_import_errors(db)

    server = remote(context)
    if server is None:
        dags, errors = query(context, read)
    else:
        dags, errors = server.rows("/dags", ListedDag, None, {}), server.rows("/import-errors", ImportErrorRow, None, {})
    output.write_page([dag.document() for dag in dags], lambda: print_list(dags), json=json)
    if held := [listed.dag.dag_id for listed in dags if listed.dag.held_since is not None]:
        output.say(f"held: {', '.join(held)}; `tidegate dags why-not {held[0]}` says why, and what to do")
    if errors:
        output.say(broken_files(errors))


@app.command(epilog=examples("tidegate dags show daily_delays"))
def show(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Show a DAG: its schedule, pending events, limits, tasks, next and last runs."""
    page, now = shown(context, at("dags", dag_id), DagPage, lambda db: read_page(db, dag_id))
    output.write_page(page, lambda: print_page(page, now), json=json)


@app.command(epilog=examples("tidegate dags history daily_delays", "tidegate dags history daily_delays --year 2013 --json"))
def history(
    context: typer.Context,
    dag_id: DagId,
    *,
    year: Annotated[
        int | None, typer.Option(min=EARLIEST.year, max=LATEST.year, help="The year. Default: that of the last run.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the past of a DAG: its runs of a year by day and state, in UTC, and how long successful runs usually take."""

    async def read(db: Db) -> DagHistory:
        return await read_history(db, dag_id, year, None, HISTORY_RUNS)

    page, _ = shown(context, at("dags", dag_id, "history"), DagHistory, read, year=year, limit=HISTORY_RUNS)
    output.write_page(page, lambda: print_history(page), json=json)


@app.command(
    "why-not",
    epilog=examples(
        "tidegate dags why-not daily_delays", "tidegate dags why-not daily_delays --json | jq -r '.change[].commands[]'"
    ),
)
def why_not(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Explain why a DAG has no new run: the state of each gate, from its inputs to the daemons, and the change that opens it.

    A gate is open, closed, or not reached because an earlier one is closed. The same code decides and explains. Exit code 0 for
    every answer.
    """
    from tidegate.daemon.cli.pages import why_not as pages
    from tidegate.daemon.read_model import why_not as read_model

    page, now = query_at(context, read_model.read_dag, dag_id)
    output.write_page(read_model.dag_document(page), lambda: pages.print_dag(page, now), json=json)


@app.command(
    "next",
    epilog=examples(
        "tidegate dags next daily_delays -n 5",
        "tidegate dags next daily_delays --after 2026-03-28",
        "tidegate dags next daily_delays --on 2026-12-25 || echo not that day",
    ),
)
def next_(
    context: typer.Context,
    dag_id: DagId,
    *,
    limit: Limit = 10,
    after: Annotated[str | None, typer.Option(metavar="TIME", help="Only runs due after this time, which may be past.")] = None,
    on: Annotated[
        str | None, typer.Option(metavar="DATE", help="Check whether a run is planned for this day or time; exit code 1 if not.")
    ] = None,
    json: Json = False,
) -> None:
    """Print the next runs that a DAG's timetable plans, in UTC and in the DAG's time zone.

    Without --after, the runs that a daemon will start; the first may be due already. Times without an offset are in the DAG's
    time zone; 2026-03-28T06:00Z is in UTC.
    """
    if on is not None and after is not None:
        raise typer.BadParameter("give either --on or --after, not both", param_hint="--on")
    dag, now = query_at(context, find_timed_dag, dag_id)
    if on is None:
        _print_runs(dag, _runs(dag, after, now, limit), json=json)
    else:
        _print_check(dag, on, now, json=json)


@app.command(epilog=examples("tidegate dags pause daily_delays"))
def pause(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Start no new runs and tasks of a DAG. Running tasks continue. Events that arrive are discarded, unless on_paused="keep"."""
    _set_paused(context, dag_id, paused=True, json=json)


@app.command(epilog=examples("tidegate dags unpause daily_delays"))
def unpause(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Start runs and tasks of a paused DAG again."""
    _set_paused(context, dag_id, paused=False, json=json)


@app.command(epilog=examples("tidegate dags release daily_delays"))
def release(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Release a held DAG: a daemon decides about it again, and holds it again if the fault is still there.

    A new version of its DAG file releases it, too. Runs of a version that cannot be read can be cancelled before.
    """
    from tidegate.daemon import runs

    changed(context, ("POST", at("dags", dag_id, "release")), DagRow, lambda database: runs.release(database, dag_id))
    output.write_result({"dag_id": dag_id, "released": True}, f"released {dag_id}", json=json)
    output.say(f"if the fault is still there, it is held again: `tidegate dags why-not {dag_id}` then says what to do")


@app.command(epilog=examples("tidegate dags delete daily_delays --yes"))
def delete(context: typer.Context, dag_id: DagId, *, yes: Yes = False, json: Json = False) -> None:
    """Delete a DAG that is in no DAG file: its versions, runs and pending events. The event ledger keeps its events."""
    from tidegate.daemon import runs

    if not yes:
        raise typer.BadParameter("a deleted DAG cannot be restored; add --yes to delete it", param_hint="--yes")
    changed(context, ("DELETE", at("dags", dag_id)), DagRow, lambda database: runs.delete(database, dag_id))
    output.write_result({"dag_id": dag_id, "deleted": True}, f"deleted {dag_id}", json=json)


app.command(epilog=examples("tidegate dags plan", "tidegate dags plan daily.py team/ --json | jq -r '.dags[].dag_id'"))(
    dag_files.plan
)
app.command(epilog=examples("tidegate dags versions daily_delays"))(dag_files.versions)
app.command(
    epilog=examples(
        "tidegate dags source daily_delays --version 4 | diff dags/daily.py -",
        "tidegate dags source daily_delays --version 4 --into dags",
    )
)(dag_files.source)


@app.command(
    epilog=examples(
        "tidegate dags notify daily.py team/hourly.py", "git diff -z --name-only HEAD~1 | xargs -0 tidegate dags notify"
    )
)
def notify(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATHS", help="DAG files, relative to the DAG folder or absolute.")],
    *,
    json: Json = False,
) -> None:
    """Publish that DAG files are new, changed or deleted, for CI and git hooks; returns when Kafka has stored the events.

    Daemons notice changes of their DAG folder by themselves; with this command they also notice them where inotify does not work,
    as on some network file systems. Of other files than `*.py` and `*.zip` it only says that it leaves them out.
    """
    from tidegate.daemon.cli.changed_files import below_folder, publish

    settings = read_settings(context, "kafka_servers")
    below = below_folder(paths, dags_root(settings))
    files = [path for path in below if path.endswith((".py", ARCHIVE))]
    if others := [path for path in below if path not in files]:
        output.say(f"no DAG files, left out: {', '.join(others)}")
    events = anyio.run(publish, settings, files)
    if json:
        output.write_json([{"path": path, "id": event.id} for path, event in events.items()])
        return
    for path, event in events.items():
        output.write(f"published {path} as {event.id}")


app.command(
    "test",
    epilog=examples(
        "tidegate dags test daily.py", "tidegate dags test daily.py --event 'lake://flights={\"rows\": 12}' --task join"
    ),
)(try_dag)


@app.command(epilog=examples("tidegate dags errors"))
def errors(context: typer.Context, *, json: Json = False) -> None:
    """List the DAG files that cannot be parsed, and why. The last good version of their DAGs stays in use."""
    found, _ = listed(context, "/import-errors", ImportErrorRow, dag_pages.list_import_errors)
    if json:
        output.write_json(found)
        return
    for error in found:
        output.write(tree.problem(error.path, error.line, error.reason))
    if not found:
        output.say("no DAG file is broken")


def _set_paused(context: typer.Context, dag_id: str, *, paused: bool, json: bool) -> None:
    from tidegate.daemon import runs

    change, body = ("PATCH", at("dags", dag_id)), {"is_paused": paused}
    changed(context, change, DagRow, lambda database: runs.set_paused(database, dag_id, paused=paused), body)
    document = {"dag_id": dag_id, "is_paused": paused}
    output.write_result(document, f"{'paused' if paused else 'unpaused'} {dag_id}", json=json)


def _runs(dag: DagView, after: str | None, now: datetime, limit: int) -> list[Planned]:
    return list_planned(dag, now, limit, due_after=None if after is None else _range("--after", after, dag)[0])


def _range(option: str, text: str, dag: DagView) -> tuple[datetime, datetime]:
    try:
        return period_of(text, timezone_of(dag.graph.timetable))
    except ValueError as error:
        example = "write a date or a time like 2013-01-31, 2013-01-31T06:00 or 2013-01-31T06:00Z"
        raise typer.BadParameter(f"{example} ({error})", param_hint=option) from error


def _print_runs(dag: DagView, runs: Sequence[Planned], *, json: bool) -> None:
    clock = timezone_of(dag.graph.timetable)
    output.write_page([_document(run, clock) for run in runs], lambda: print_planned(runs, clock), json=json)
    if dag.is_inactive:
        state = "is paused" if dag.is_paused else "is in no DAG file"
        output.say(f"{dag.graph.dag_id} {state}: none of these runs starts until that changes")


def _print_check(dag: DagView, date: str, now: datetime, *, json: bool) -> None:
    """Raises Exit with 1 for a date that is not on the schedule."""
    start, end = _range("--on", date, dag)
    tick = first_tick_from(dag, start, now)
    found = None if tick is None else planned(tick)
    is_on = found is not None and found.logical_date < end
    clock = timezone_of(dag.graph.timetable)
    known = None if found is None else _document(found, clock)
    document = {"on_schedule": is_on, "run": known if is_on else None, "next": None if is_on else known}
    sentence = f"{date} is {'' if is_on else 'not '}on the schedule; {_next_text(found, clock, is_on=is_on)}"
    output.write_result(document, sentence, json=json)
    if not is_on:
        raise typer.Exit(1)


def _next_text(run: Planned | None, clock: str, *, is_on: bool) -> str:
    if run is None:
        return "no later date is"
    in_zone = "" if clock == UTC_CLOCK else f" ({local(run.logical_date, zone(clock))})"
    prefix = "its first run has the logical date" if is_on else "the next logical date is"
    return f"{prefix} {utc(run.logical_date)}{in_zone}, due {utc(run.run_after)}"


def _document(run: Planned, clock: str) -> dict[str, Any]:
    """The JSON object: times in UTC, and under `local` in the DAG's time zone."""
    return {**{name: getattr(run, name) for name in run.__struct_fields__}, "timezone": clock, "local": run.at(clock)}
