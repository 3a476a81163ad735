"""All rules over the DAGs of a file."""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path

from tidegate.daemon.lint.dates import missing_dates
from tidegate.daemon.lint.filters import doubtful_filters
from tidegate.daemon.lint.finding import Finding, Findings, Mistake
from tidegate.daemon.lint.functions import late_variables, uncalled_builders, unknown_tasks
from tidegate.daemon.lint.installation import Installation, silent_inputs, unknown_pool
from tidegate.daemon.lint.places import Places
from tidegate.daemon.lint.schedules import doubtful_schedule, mixed_inputs
from tidegate.daemon.lint.tasks import doubtful_command, mistakes_of
from tidegate.schemas.cluster import Clusters, cluster_name, cluster_problem
from tidegate.schemas.dag import BaseTask, DagSpec, FunctionTask, ParsedFile


def findings_of(
    file: ParsedFile, folder: Path, outlets: Collection[str], installation: Installation | None, clusters: Clusters
) -> Findings:
    """What is wrong with the DAGs of a file. `outlets` are the datasets that the tasks of all checked files update.

    Without the state of an installation, its pools and datasets are unknown.
    """
    places = Places(file.source)
    found = [
        _finding(places, spec.dag_id, task.task_id, mistake)
        for spec in file.dags
        for task in spec.tasks
        for mistake in _of_task(spec, task, folder, clusters)
    ]
    of_file = (*uncalled_builders(places.tree), *late_variables(places.tree))
    notes = [_finding(places, None, None, mistake) for mistake in of_file]
    notes += [
        _finding(places, spec.dag_id, None, mistake)
        for spec in file.dags
        for mistake in _about_schedule(spec, places, outlets, installation)
    ]
    notes += [
        _finding(places, spec.dag_id, task.task_id, mistake)
        for spec in file.dags
        for task in spec.tasks
        for mistake in _doubts(spec, task, places, installation)
    ]
    return Findings(tuple(found), tuple(notes))


def _of_task(spec: DagSpec, task: BaseTask, folder: Path, clusters: Clusters) -> Iterator[Mistake]:
    yield from mistakes_of(task, folder, spec.conf_params)
    if (problem := cluster_problem(task, clusters)) is not None:
        yield Mistake(cluster_name(task), problem)


def _about_schedule(
    spec: DagSpec, places: Places, outlets: Collection[str], installation: Installation | None
) -> Iterator[Mistake]:
    functions = [function for task in spec.tasks if (function := places.function_of(task.task_id)) is not None]
    yield from silent_inputs(spec, outlets, installation)
    yield from doubtful_filters(spec)
    yield from doubtful_schedule(spec, datetime.now(UTC))
    yield from mixed_inputs(spec, functions)


def _doubts(spec: DagSpec, task: BaseTask, places: Places, installation: Installation | None) -> Iterator[Mistake]:
    if installation is not None:
        yield from unknown_pool(task, installation.pools)
    function = places.function_of(task.task_id) if isinstance(task, FunctionTask) else None
    yield from missing_dates(spec, task, function)
    yield from doubtful_command(task)
    if function is not None:
        yield from unknown_tasks(spec, task, function)


def _finding(places: Places, dag_id: str | None, task_id: str | None, mistake: Mistake) -> Finding:
    line = mistake.line or places.line_of(task_id, mistake.text)
    return Finding(dag_id=dag_id, task_id=task_id, line=line, reason=mistake.reason)
