"""`tidegate dags`: list, show, explain, pause, unpause and delete DAGs, print their next runs, publish changed files."""

from pathlib import Path
from typing import Annotated

import anyio
import typer

from tidegate.daemon.cli.command import DagId, Json, Limit, Yes, command_group, examples
from tidegate.daemon.cli.commands import dag_files
from tidegate.daemon.cli.commands.dag_test import try_dag
from tidegate.daemon.cli.commands.next_runs import plan_of, print_check, print_runs
from tidegate.daemon.cli.failure import FAILED
from tidegate.daemon.cli.pages import output, tree
from tidegate.daemon.cli.pages.dag import print_history, print_list, print_page
from tidegate.daemon.cli.pages.deletion import Portions
from tidegate.daemon.cli.session import at, changed, listed, query, read_settings, remote, shown
from tidegate.daemon.read_model.dag import DagPage, ListedDag, read_dag_page, read_list
from tidegate.daemon.read_model.history import DagHistory, read_history
from tidegate.daemon.read_model.lookup import broken_files
from tidegate.daemon.settings import dags_root
from tidegate.schemas.dag import ARCHIVE
from tidegate.schemas.queries import dag_pages
from tidegate.schemas.queries.dag_pages import DagFilter, DagRow, DagState, ImportErrorRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.time_range import EARLIEST, LATEST

app = command_group()

HISTORY_RUNS = 100
"""The last runs that `history` has in JSON."""


@app.command(
    "list",
    epilog=examples(
        "tidegate dags list", "tidegate dags list --tag flights --state failed", "tidegate dags list --json | jq -r '.[].dag_id'"
    ),
)
def list_(
    context: typer.Context,
    *,
    tag: Annotated[str | None, typer.Option(help="Only DAGs with this tag.")] = None,
    state: Annotated[
        DagState | None, typer.Option(help="Only DAGs in this state, with a broken file, or whose last run is in this state.")
    ] = None,
    json: Json = False,
) -> None:
    """List DAGs. NEXT is when the next run by time is due."""

    async def read(db: Db) -> tuple[list[ListedDag], list[ImportErrorRow]]:
        return await read_list(db, DagFilter(tag=tag, state=state)), await dag_pages.list_import_errors(db)

    server = remote(context)
    if server is None:
        dags, errors = query(context, read)
    else:
        dags = server.rows("/dags", ListedDag, None, {"tag": tag, "state": state})
        errors = server.rows("/import-errors", ImportErrorRow, None, {})
    output.write_page([dag.document() for dag in dags], lambda: print_list(dags), json=json)
    if held := [listed.dag.dag_id for listed in dags if listed.dag.held_since is not None]:
        output.say(f"held: {', '.join(held)}; `tidegate dags why-not {held[0]}` says why, and what to do")
    if errors:
        output.say(broken_files(len(errors)))


@app.command(epilog=examples("tidegate dags show daily_delays"))
def show(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Show a DAG: its schedule, pending events, limits, tasks, next and last runs."""
    page, now = shown(context, at("dags", dag_id), DagPage, lambda db: read_dag_page(db, dag_id))
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
    """Show the past of a DAG: its runs of a year by day in its time zone and state, and how long successful runs usually take."""

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

    async def read(db: Db) -> read_model.DagInWords:
        return read_model.dag_in_words(await read_model.read_dag_why_not(db, dag_id))

    page, now = shown(context, at("dags", dag_id, "why-not"), read_model.DagInWords, read)
    output.write_page(page, lambda: pages.print_dag(page, now), json=json)


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
    plan = plan_of(context, dag_id)
    if on is None:
        print_runs(plan, after, limit, json=json)
    else:
        print_check(plan, on, json=json)


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
    """Delete a DAG that is in no DAG file: its versions, runs and pending events. The event ledger keeps its events.

    A long history goes first, in portions, the oldest runs first. An interrupted command can be repeated. A DAG that comes back
    into a DAG file meanwhile keeps the rest.
    """
    from tidegate.daemon import runs

    if not yes:
        raise typer.BadParameter("a deleted DAG cannot be restored; add --yes to delete it", param_hint="--yes")
    changed(context, ("DELETE", at("dags", dag_id)), DagRow, lambda database: runs.delete(database, dag_id, Portions(dag_id).add))
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
    as on some network file systems. A file in an archive stands for the archive. Of other files than `*.py` and `*.zip` it only
    says that it leaves them out.
    """
    from tidegate.daemon.cli.changed_files import below_folder, publish
    from tidegate.daemon.dagfiles.scan import reported_files

    settings = read_settings(context, "kafka_servers")
    root = dags_root(settings)
    below = list(dict.fromkeys(reported_files(root, below_folder(paths, root)).values()))
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
    """List the DAG files that cannot be parsed, and why. The last good version of their DAGs stays in use.

    Exit code 1 if there are any.
    """
    found, _ = listed(context, "/import-errors", ImportErrorRow, dag_pages.list_import_errors)
    if json:
        output.write_json(found)
    elif not found:
        output.say("no DAG file is broken")
    else:
        for error in found:
            output.write(tree.problem(error.path, error.line, error.reason))
    if found:
        raise typer.Exit(FAILED)


def _set_paused(context: typer.Context, dag_id: str, *, paused: bool, json: bool) -> None:
    from tidegate.daemon import runs

    change, body = ("PATCH", at("dags", dag_id)), {"is_paused": paused}
    changed(context, change, DagRow, lambda database: runs.set_paused(database, dag_id, paused=paused), body)
    document = {"dag_id": dag_id, "is_paused": paused}
    output.write_result(document, f"{'paused' if paused else 'unpaused'} {dag_id}", json=json)
