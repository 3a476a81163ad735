"""`tidegate tasks test`: execute one task of a run, and record nothing."""

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import typer

from tidegate.daemon.cli.command import DagId, Json, RunId, TaskId
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query, read_settings
from tidegate.daemon.read_model.lookup import find_run, find_task
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries.db import Db

if TYPE_CHECKING:
    from tidegate.daemon.spark.contract import SubmissionSpec
    from tidegate.daemon.spark.spool import Outcome


def try_task(context: typer.Context, dag_id: DagId, run_id: RunId, task_id: TaskId, *, json: Json = False) -> None:
    """Execute a task of a run in this process, with the events, parameters and results of the run, and record nothing.

    The task does its work; its outlets are not updated, and no retry follows. Exit code 1 if it failed.
    """
    from tidegate.daemon.trial.run_task import run_task

    settings = read_settings(context, "postgres_dsn")
    spec = query(context, _spec, dag_id, run_id, task_id)
    with output.answer_apart():
        outcome = run_task(settings, spec)
    output.write_page(_document(outcome), lambda: _print(task_id, outcome), json=json)
    if outcome.outcome == "failed":
        raise typer.Exit(1)


async def _spec(db: Db, dag_id: str, run_id: str, label: str) -> "SubmissionSpec":
    """The submission of an attempt. Raises RequestError for a task without an attempt of its own."""
    from tidegate.daemon.duties.submission_specs import submission_specs
    from tidegate.handlers.explain.task_facts import index_of
    from tidegate.schemas.queries import versions
    from tidegate.schemas.queries.facts import run_facts
    from tidegate.schemas.queries.submissions import ClaimedAttempt

    run = await find_run(db, dag_id, run_id)
    task = await find_task(db, run, label)
    view = (await run_facts(db, dag_id, run.run_id)).view
    graph = (await versions.graphs(db, {view.version_id}))[view.version_id]
    index = index_of(graph, label)
    if index is None:
        raise RequestError(f"task {label!r} is no part of the version of run {run.run_id!r}")
    if graph.node(index).ends_at_once:
        raise RequestError(f"task {label!r} is an empty task: it does no work")
    if index < len(graph.nodes) and graph.nodes[index].over is not None:
        raise RequestError(f"task {label!r} is mapped; name an instance of it, like {label}[0]")
    (built,) = await submission_specs(db, [ClaimedAttempt(uuid4(), view.id, index, max(task.try_number, 1), "")])
    if isinstance(built, Exception):
        raise built
    return await _with_events(db, built)


async def _with_events(db: Db, spec: "SubmissionSpec") -> "SubmissionSpec":
    """The submission with all events of its run, which are not in it if there are many."""
    import msgspec

    from tidegate.schemas.queries import sources
    from tidegate.schemas.run import ConsumedEvent

    if spec.events_of is None:
        return spec
    stored = [event for ids in await sources.event_pages(db, spec.events_of) for event in await sources.page_of_events(db, ids)]
    events = msgspec.json.decode(msgspec.json.encode(stored), type=tuple[ConsumedEvent, ...])
    return msgspec.structs.replace(spec, run=msgspec.structs.replace(spec.run, events=events), events_of=None)


def _document(outcome: "Outcome") -> dict[str, Any]:
    return {
        "outcome": outcome.outcome,
        "reason": outcome.reason,
        "result": outcome.result,
        "outlets": outcome.outlets or {},
        "published": outcome.events or (),
    }


def _print(task_id: str, outcome: "Outcome") -> None:
    output.write(f"{task_id} {outcome.outcome}{outcome.reason and f': {outcome.reason}'}")
    if outcome.result is not None:
        output.write(f"returns {output.compact(outcome.result) or outcome.result}")
    for uri, extra in (outcome.outlets or {}).items():
        output.write(f"says of {uri} {output.compact(extra)}")
    for event in outcome.events or ():
        output.write(f"publishes {event.uri} {output.compact(event.extra)}".rstrip())
