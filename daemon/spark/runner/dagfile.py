"""Builds the DAG file of a submission at the run's version."""

import linecache
import sys
from pathlib import Path

from tidegate.daemon.spark.job import Job
from tidegate.schemas.authoring.build import build
from tidegate.schemas.authoring.dag import Dag


def load(job: Job) -> Dag | None:
    """The DAG of the run; None if the file does not build it on this host. The file may import from the DAG folder."""
    spec = job.spec
    sys.path.insert(0, job.dags_folder)
    filename = str(Path(job.dags_folder, spec.dag_path))
    # Source lines for tracebacks: the file on disk may have changed since this version.
    linecache.cache[filename] = (len(spec.source), None, spec.source.splitlines(keepends=True), filename)
    return next((dag for dag in build(spec.source, filename) if dag.dag_id == spec.run.dag_id), None)
