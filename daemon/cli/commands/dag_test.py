"""`tidegate dags test`: run a DAG in this process, without servers."""

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.daemon.cli.command import Json, parse_json_object, parse_time
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import read_settings
from tidegate.daemon.settings import dags_root
from tidegate.schemas.dag import ARCHIVE
from tidegate.schemas.error import FATAL, RequestError, described, did_you_mean
from tidegate.schemas.state import RunState

if TYPE_CHECKING:
    from tidegate.daemon.dagfiles.source import Source
    from tidegate.schemas.authoring.dag import Dag
    from tidegate.schemas.authoring.trial import Event, Replacements

EVENT = "--event"


def try_dag(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The DAG file. It is run by this process, without a sandbox.")],
    *,
    dag_id: Annotated[str | None, typer.Option("--dag", metavar="DAG", help="Needed for a file with several DAGs.")] = None,
    tasks: Annotated[
        list[str] | None, typer.Option("--task", metavar="TASK", help="Only this task does its work; may be repeated.")
    ] = None,
    events: Annotated[
        list[str] | None, typer.Option(EVENT, metavar="URI", help="A dataset event: URI or URI={JSON}; may be repeated.")
    ] = None,
    conf: Annotated[str | None, typer.Option("--conf", metavar="JSON", help="Parameters of a manual run.")] = None,
    logical_date: Annotated[
        datetime | None, typer.Option(parser=parse_time, metavar="TIME", help="The logical date of a manual run.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a DAG in this process, without servers and without a trace: its tasks do their work.

    Events start runs by the condition of the DAG. Without events a DAG runs at its next time, or as on request.
    Exit code 1 if a run failed, or if there is none.
    """
    from tidegate.daemon.cli.pages.trial import print_trial

    folder = _folder(path, dags_root(read_settings(context)).resolve())
    with output.answer_apart():
        dag = _dag(path, folder, dag_id)
        trial = dag.test(
            events=[_event(text) for text in events or ()],
            params=None if conf is None else parse_json_object("--conf", conf),
            logical_date=logical_date,
            replace=_others(dag, tasks) if tasks else {},
            folder=folder,
        )
    output.write_page(trial, lambda: print_trial(trial), json=json)
    if not trial.runs:
        output.say(f"there is no run: the DAG waits for {trial.waits_for}")
    if not trial.runs or any(run.state is not RunState.SUCCESS for run in trial.runs):
        raise typer.Exit(1)


def _folder(path: Path, root: Path) -> Path:
    """The DAG folder of a file: that of the file, or of the archive that it is in, if it is not below `root`."""
    found = path.resolve()
    return root if found.is_relative_to(root) else (found.parent.parent if found.parent.is_file() else found.parent)


def _dag(path: Path, folder: Path, dag_id: str | None) -> "Dag":
    """Raises RequestError for a file that cannot be read, and if it is not clear which DAG is meant."""
    from tidegate.daemon.spark.runner.pinned_modules import install
    from tidegate.schemas.authoring.build import build

    sys.path.insert(0, str(folder))
    try:
        source = _source(path, folder)
        install(folder, str(path.resolve().relative_to(folder)), source.modules)
        dags = {dag.dag_id: dag for dag in build(source.text, str(path.resolve()))}
    except (*FATAL, RequestError):
        raise
    except (Exception, SystemExit) as error:
        raise RequestError(f"{path} builds no DAGs: {described(error)}; `tidegate check {path}` says where") from error
    if dag_id is None and len(dags) == 1:
        return next(iter(dags.values()))
    if dag_id is None:
        raise RequestError(f"{path} has {len(dags)} DAGs; name one with --dag" if dags else f"{path} has no DAGs")
    if dag_id not in dags:
        raise RequestError(f"{path} has no DAG {dag_id!r}{did_you_mean(dag_id, dags)}")
    return dags[dag_id]


def _source(path: Path, folder: Path) -> "Source":
    """Raises OSError, RefusedError, and RequestError for a whole archive."""
    from tidegate.daemon.dagfiles.scan import files_of
    from tidegate.daemon.dagfiles.source import decode, read

    if path.suffix == ARCHIVE:
        inside = files_of(folder, str(path.resolve().relative_to(folder)))
        raise RequestError(f"{path} is an archive; name one of its files: {', '.join(inside) or 'it has none'}")
    if not path.resolve().parent.is_file():
        return decode(path.read_bytes())
    found = read(folder, str(path.resolve().relative_to(folder)))
    if found is None:
        raise FileNotFoundError(f"there is no such file in {path.parent}")
    return found


def _others(dag: "Dag", named: Sequence[str]) -> "Replacements":
    """The replacements of tasks that are not named. Raises RequestError for a named one that is unknown or maps over nothing."""
    for task_id in named:
        if task_id not in dag.tasks:
            raise RequestError(f"DAG {dag.dag_id!r} has no task {task_id!r}{did_you_mean(task_id, dag.tasks)}")
        over = dag.tasks[task_id].spec.over
        if over is not None and over not in named:
            raise RequestError(f"task {task_id!r} is mapped over the result of {over!r}: add --task {over}")
    mapped_over = {task.spec.over for task in dag.tasks.values()}
    return {task_id: _one if task_id in mapped_over else _nothing for task_id in dag.tasks if task_id not in named}


def _nothing(_spark: object, _run: object) -> None:
    return


def _one(_spark: object, _run: object) -> list[None]:
    """A list for the tasks that are mapped over it, which would fail without."""
    return [None]


def _event(text: str) -> "Event":
    from tidegate.schemas.authoring.trial import Event

    uri, brace, rest = text.partition("={")
    return Event(uri, parse_json_object(EVENT, brace[1:] + rest) if brace else {})
