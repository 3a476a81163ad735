"""`tidegate tasks`: list, explain, clear and mark the tasks of a run; print their logs and results."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.daemon.cli.command import DagId, Json, MarkState, RunId, TaskId, Yes, command_group, examples, shared_options
from tidegate.daemon.cli.commands.clearing import NoDownstream, clear_tasks
from tidegate.daemon.cli.commands.task_logs import print_log
from tidegate.daemon.cli.commands.task_test import try_task
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.lists import TASKS, print_list
from tidegate.daemon.cli.session import at, changed, listed, read_settings, shown
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.read_model.lookup import find_run
from tidegate.daemon.read_model.results import read_result
from tidegate.schemas.message import ClearOptions, ClearRequested
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunTaskRow
from tidegate.schemas.state import TaskState

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database

app = command_group()


@app.command("list", epilog=examples("tidegate tasks list daily_delays latest"))
def list_(
    context: typer.Context,
    dag_id: DagId,
    run_id: RunId,
    *,
    state: Annotated[TaskState | None, typer.Option(help="Only tasks in this state.")] = None,
    json: Json = False,
) -> None:
    """List the tasks of a run."""

    async def read(db: Db) -> list[RunTaskRow]:
        run = await find_run(db, dag_id, run_id)
        return [task.row for task in await run_pages.page_of_tasks(db, dag_id, run.run_id, state=state)]

    path = at("dags", dag_id, "runs", run_id, "tasks")
    print_list(TASKS, *listed(context, path, RunTaskRow, read, state=state), json=json)


@app.command(epilog=examples("tidegate tasks logs daily_delays latest join --follow"))
def logs(
    context: typer.Context,
    dag_id: DagId,
    run_id: RunId,
    task_id: TaskId,
    *,
    try_number: Annotated[int | None, typer.Option("--try", min=1, help="The number of the try. Default: the last one.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for the task, and print until its try ends.")] = False,
    json: Json = False,
) -> None:
    """Print what a try of a task wrote to stdout and stderr."""
    from tidegate.daemon.read_model.logs import LogRequest

    if follow and json:
        raise typer.BadParameter("--follow prints lines as they come; leave out --json", param_hint="--follow")
    print_log(context, LogRequest(dag_id, run_id, task_id, try_number), follow=follow, json=json)


@app.command(
    epilog=examples("tidegate tasks result daily_delays latest join", "tidegate tasks result daily_delays latest join | jq .rows")
)
def result(context: typer.Context, dag_id: DagId, run_id: RunId, task_id: TaskId, *, _json: Json = False) -> None:
    """Print the result that a task returned, as JSON with and without --json. Exit code 1 if there is none."""

    async def read(db: Db) -> Any:
        return await read_result(db, await find_run(db, dag_id, run_id), task_id)

    output.write_json(shown(context, at("dags", dag_id, "runs", run_id, "tasks", task_id, "result"), object, read)[0])


app.command("test", epilog=examples("tidegate tasks test daily_delays latest report"))(try_task)


@app.command(
    "why-not",
    epilog=examples(
        "tidegate tasks why-not daily_delays latest report",
        "tidegate tasks why-not daily_delays latest load 3     # an instance of a mapped task, as load[3]",
        "tidegate tasks why-not daily_delays latest report --json | jq -r '.change[].commands[]'",
    ),
)
def why_not(
    context: typer.Context,
    dag_id: DagId,
    run_id: RunId,
    task_id: TaskId,
    map_index: Annotated[
        int | None,
        typer.Argument(metavar="[INDEX]", min=0, help="The index of a mapped instance, from 0.", show_default=False),
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Explain why a task does not run: the state of each gate, from its run to its backend, and the change that opens it.

    A gate is open, closed, or not reached because an earlier one is closed. The same code decides and explains. Exit code 0 for
    every answer.
    """
    from tidegate.daemon.cli.pages import why_not as pages
    from tidegate.daemon.read_model import why_not as read_model

    label = task_id if map_index is None else f"{task_id}[{map_index}]"
    settings = read_settings(context)

    async def read(db: Db) -> read_model.TaskInWords:
        return read_model.task_in_words(
            await read_model.read_task_why_not(db, await find_run(db, dag_id, run_id), label, settings)
        )

    page, now = shown(context, at("dags", dag_id, "runs", run_id, "tasks", label, "why-not"), read_model.TaskInWords, read)
    output.write_page(page, lambda: pages.print_task(page, now), json=json)


@app.command(
    epilog=examples(
        "tidegate tasks clear daily_delays latest join",
        "tidegate tasks clear daily_delays latest join report --no-downstream --yes",
        "tidegate tasks clear daily_delays latest 'load[3]'   # one instance of a mapped task",
    )
)
@shared_options(ClearOptions)
def clear(
    context: typer.Context,
    dag_id: DagId,
    run_id: RunId,
    task_ids: Annotated[
        list[str],
        typer.Argument(metavar="TASK…", help="The ids of the tasks, or of instances such as 'load[3]'."),
    ],
    *,
    no_downstream: NoDownstream = False,
    yes: Yes = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Run tasks of a run, and the tasks after them, again. Active attempts are killed; earlier tries stay on record.

    Lists the tasks and asks for confirmation. Setups and teardowns of cleared tasks are cleared too. Also lists the runs that
    consumed what these tasks wrote.
    """
    named: dict[str, Any] = {"dag_id": dag_id, "run_id": run_id, "task_ids": tuple(task_ids)}
    clear_tasks(context, ClearRequested(**named, downstream=not no_downstream, **options), yes=yes, json=json)


@app.command(epilog=examples("tidegate tasks mark daily_delays latest join success"))
def mark(context: typer.Context, dag_id: DagId, run_id: RunId, task_id: TaskId, state: MarkState, *, json: Json = False) -> None:
    """Set a task to success or failed. An active attempt is killed, and the tasks after it are decided again."""
    from tidegate.daemon import runs

    user = current_user(read_settings(context))

    async def work(database: "Database") -> RunTaskRow:
        return await runs.mark_task(database, user, dag_id, run_id, task_id, TaskState(state))

    path = at("dags", dag_id, "runs", run_id, "tasks", task_id, "mark")
    task = changed(context, ("POST", path), RunTaskRow, work, {"state": state})
    output.write_result(task, f"marked {task_id} as {task.state}", json=json)
