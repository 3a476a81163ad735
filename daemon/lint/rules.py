"""All rules over the DAGs of a file."""

from collections.abc import Collection, Iterator
from pathlib import Path

from tidegate.daemon.lint.dates import missing_dates
from tidegate.daemon.lint.filters import doubtful_filters
from tidegate.daemon.lint.finding import Finding, Findings, Mistake
from tidegate.daemon.lint.installation import Installation, silent_inputs, unknown_pool
from tidegate.daemon.lint.places import Places
from tidegate.daemon.lint.tasks import mistakes_of
from tidegate.schemas.cluster import Clusters, cluster_name, cluster_problem
from tidegate.schemas.dag import BaseTask, ParsedFile


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
        for mistake in _of_task(task, folder, installation, clusters)
    ]
    notes = [
        _finding(places, spec.dag_id, None, mistake)
        for spec in file.dags
        for mistake in (*silent_inputs(spec, outlets, installation), *doubtful_filters(spec))
    ]
    undated = [
        _finding(places, spec.dag_id, task.task_id, mistake)
        for spec in file.dags
        for task in spec.tasks
        for mistake in missing_dates(spec, task, places.function_of(task.task_id))
    ]
    return Findings(tuple(found), (*notes, *undated))


def _of_task(task: BaseTask, folder: Path, installation: Installation | None, clusters: Clusters) -> Iterator[Mistake]:
    yield from mistakes_of(task, folder)
    if (problem := cluster_problem(task, clusters)) is not None:
        yield Mistake(cluster_name(task), problem)
    if installation is not None:
        yield from unknown_pool(task, installation.pools)


def _finding(places: Places, dag_id: str, task_id: str | None, mistake: Mistake) -> Finding:
    line = mistake.line or places.line_of(task_id, mistake.text)
    return Finding(dag_id=dag_id, task_id=task_id, line=line, reason=mistake.reason)
