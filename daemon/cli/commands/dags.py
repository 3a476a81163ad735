"""`tidegate dags`: what there is, what it waits for, when it runs next, and whether it may."""

from typing import Any

import msgspec
import typer

from tidegate.daemon.cli.agreement import Yes
from tidegate.daemon.cli.command import DagId, Json, examples, noun
from tidegate.daemon.cli.commands.next_runs import next_
from tidegate.daemon.cli.pages import output, tree
from tidegate.daemon.cli.pages.dag import print_page, read_page, state_of
from tidegate.daemon.cli.pages.plan import Planned, next_run
from tidegate.daemon.cli.session import query, query_at, with_database
from tidegate.schemas.conditions.condition import Condition
from tidegate.schemas.message import DagDeleteRequested, PauseRequested
from tidegate.schemas.queries import dag_pages
from tidegate.schemas.queries.dag_pages import DagRow, ImportErrorRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.plans import plans
from tidegate.schemas.timetable.spec import Timetable

app = noun("List, show, pause and delete DAGs; say when they run next, and why not.")
app.command(
    "next",
    epilog=examples(
        "tidegate dags next daily_delays -n 5",
        "tidegate dags next daily_delays --after 2026-03-28",
        "tidegate dags next daily_delays --on 2026-12-25 || echo not that day",
    ),
)(next_)

TITLES = ("DAG", "STATE", "VERSION", "RUNNING", "QUEUED", "PENDING", "SCHEDULE", "NEXT", "FILE")


class Listed(msgspec.Struct, frozen=True):
    """A line of `dags list`, and when the DAG's timetable starts its next run, if it has one."""

    dag: DagRow
    timetable: Timetable | None
    next_run: Planned | None

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**msgspec.structs.asdict(self.dag), "timetable": self.timetable, "next_run": self.next_run}


@app.command("list", epilog=examples("tidegate dags list", "tidegate dags list --json | jq -r '.[].dag_id'"))
def list_(context: typer.Context, *, json: Json = False) -> None:
    """List the DAGs. NEXT is when the next run by time is due."""

    async def read(db: Db) -> tuple[list[Listed], list[ImportErrorRow]]:
        return await _list(db), await dag_pages.list_import_errors(db)

    found, errors = query(context, read)
    if json:
        output.write_json([each.document() for each in found])
    else:
        output.table(TITLES, map(_cells, found), empty="there are no DAGs yet: put a DAG file into the DAG folder")
    if errors:
        files = "1 DAG file is" if len(errors) == 1 else f"{len(errors)} DAG files are"
        output.say(f"{files} broken; `tidegate dags errors` says why")


@app.command(epilog=examples("tidegate dags show daily_delays"))
def show(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Show a DAG: what starts it, its limits, its next runs, its tasks, its last runs."""
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
    """Say why a DAG has no new run: every gate from its inputs to the daemons, and the smallest change that makes one.

    A gate is open, closed, or not reached: whether that one is open shows only once those before it are. What is said comes from
    what decides. Exit code 0, whatever the answer.
    """
    from tidegate.daemon.cli.pages import dag_why_not

    page, now = query_at(context, dag_why_not.read_page, dag_id)
    if json:
        output.write_json(dag_why_not.document(page))
    else:
        dag_why_not.print_page(page, now)


@app.command(epilog=examples("tidegate dags pause daily_delays"))
def pause(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Start no more runs and no more tasks of a DAG. What runs goes on; events that come meanwhile are not kept for it."""
    _set_paused(context, dag_id, paused=True, json=json)


@app.command(epilog=examples("tidegate dags unpause daily_delays"))
def unpause(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Let a DAG run again, first what waits already."""
    _set_paused(context, dag_id, paused=False, json=json)


@app.command(epilog=examples("tidegate dags delete daily_delays --yes"))
def delete(context: typer.Context, dag_id: DagId, *, yes: Yes = False, json: Json = False) -> None:
    """Delete a DAG that is in no DAG file any more: its versions, its runs, and what waits for it. Events stay on record."""
    from tidegate.daemon.cli.request import ask

    if not yes:
        raise typer.BadParameter("what is deleted does not come back; say --yes to delete it", param_hint="--yes")
    with_database(context, lambda database: ask(database, DagDeleteRequested(dag_id=dag_id)))
    if json:
        output.write_json({"dag_id": dag_id, "deleted": True})
    else:
        output.write(f"deleted {dag_id}")


@app.command(epilog=examples("tidegate dags errors"))
def errors(context: typer.Context, *, json: Json = False) -> None:
    """List the DAG files that are broken, and why.

    Their last good version stays in force.
    """
    found = query(context, dag_pages.list_import_errors)
    if json:
        output.write_json(found)
        return
    for error in found:
        output.write(tree.problem(error.path, error.line, error.reason))
    if not found:
        output.say("no DAG file is broken")


def _set_paused(context: typer.Context, dag_id: str, *, paused: bool, json: bool) -> None:
    from tidegate.daemon.cli.request import ask

    with_database(context, lambda database: ask(database, PauseRequested(dag_id=dag_id, is_paused=paused)))
    if json:
        output.write_json({"dag_id": dag_id, "is_paused": paused})
    else:
        output.write(f"{'paused' if paused else 'unpaused'} {dag_id}")


async def _list(db: Db) -> list[Listed]:
    timed = await plans(db)
    return [
        Listed(dag, plan.graph.timetable if plan else None, next_run(plan, db.now))
        for dag in await dag_pages.list_dags(db)
        for plan in (timed.get(dag.dag_id),)
    ]


def _cells(listed: Listed) -> tuple[output.Cell, ...]:
    dag = listed.dag
    condition = msgspec.convert(dag.schedule, Condition | None)
    schedule = tree.schedule_text(condition, listed.timetable, together=dag.together)
    due = listed.next_run.run_after if listed.next_run else None
    return dag.dag_id, state_of(dag), dag.version, dag.running, dag.queued, dag.pending, schedule, due, dag.path
