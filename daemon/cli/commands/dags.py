"""`tidegate dags`: list, show, pause, unpause, delete and explain DAGs."""

import typer

from tidegate.daemon.cli.command import DagId, Json, command_group, examples
from tidegate.daemon.cli.commands.next_runs import next_
from tidegate.daemon.cli.confirmation import Yes
from tidegate.daemon.cli.pages import output, tree
from tidegate.daemon.cli.pages.dag import print_page, read_page
from tidegate.daemon.cli.pages.dag_list import ListedDag, list_dags, print_dags
from tidegate.daemon.cli.session import query, query_at, with_database
from tidegate.schemas.message import DagDeleteRequested, PauseRequested
from tidegate.schemas.queries import dag_pages
from tidegate.schemas.queries.dag_pages import ImportErrorRow
from tidegate.schemas.queries.db import Db

app = command_group("List, show, pause and delete DAGs; print their next runs, and why one has no run.")
app.command(
    "next",
    epilog=examples(
        "tidegate dags next daily_delays -n 5",
        "tidegate dags next daily_delays --after 2026-03-28",
        "tidegate dags next daily_delays --on 2026-12-25 || echo not that day",
    ),
)(next_)


@app.command("list", epilog=examples("tidegate dags list", "tidegate dags list --json | jq -r '.[].dag_id'"))
def list_(context: typer.Context, *, json: Json = False) -> None:
    """List DAGs. NEXT is when the next run by time is due."""

    async def read(db: Db) -> tuple[list[ListedDag], list[ImportErrorRow]]:
        return await list_dags(db), await dag_pages.list_import_errors(db)

    dags, errors = query(context, read)
    if json:
        output.write_json([dag.document() for dag in dags])
    else:
        print_dags(dags)
    if errors:
        files = "1 DAG file is" if len(errors) == 1 else f"{len(errors)} DAG files are"
        output.say(f"{files} broken; `tidegate dags errors` says why")


@app.command(epilog=examples("tidegate dags show daily_delays"))
def show(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Show a DAG: its schedule, pending events, limits, tasks, next and last runs."""
    page, now = query_at(context, read_page, dag_id)
    if json:
        output.write_json(page)
    else:
        print_page(page, now)


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
    from tidegate.daemon.cli.pages import dag_why_not

    page, now = query_at(context, dag_why_not.read_page, dag_id)
    if json:
        output.write_json(dag_why_not.document(page))
    else:
        dag_why_not.print_page(page, now)


@app.command(epilog=examples("tidegate dags pause daily_delays"))
def pause(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Start no new runs and tasks of a DAG. Running tasks continue. Events that arrive are discarded, unless on_paused="keep"."""
    _set_paused(context, dag_id, paused=True, json=json)


@app.command(epilog=examples("tidegate dags unpause daily_delays"))
def unpause(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Start runs and tasks of a paused DAG again."""
    _set_paused(context, dag_id, paused=False, json=json)


@app.command(epilog=examples("tidegate dags delete daily_delays --yes"))
def delete(context: typer.Context, dag_id: DagId, *, yes: Yes = False, json: Json = False) -> None:
    """Delete a DAG that is in no DAG file: its versions, runs and pending events. The event ledger keeps its events."""
    from tidegate.daemon.cli.request import apply_request

    if not yes:
        raise typer.BadParameter("a deleted DAG cannot be restored; add --yes to delete it", param_hint="--yes")
    with_database(context, lambda database: apply_request(database, DagDeleteRequested(dag_id=dag_id)))
    output.write_result({"dag_id": dag_id, "deleted": True}, f"deleted {dag_id}", json=json)


@app.command(epilog=examples("tidegate dags errors"))
def errors(context: typer.Context, *, json: Json = False) -> None:
    """List the DAG files that cannot be parsed, and why. The last good version of their DAGs stays in use."""
    found = query(context, dag_pages.list_import_errors)
    if json:
        output.write_json(found)
        return
    for error in found:
        output.write(tree.problem(error.path, error.line, error.reason))
    if not found:
        output.say("no DAG file is broken")


def _set_paused(context: typer.Context, dag_id: str, *, paused: bool, json: bool) -> None:
    from tidegate.daemon.cli.request import apply_request

    with_database(context, lambda database: apply_request(database, PauseRequested(dag_id=dag_id, is_paused=paused)))
    document = {"dag_id": dag_id, "is_paused": paused}
    output.write_result(document, f"{'paused' if paused else 'unpaused'} {dag_id}", json=json)
