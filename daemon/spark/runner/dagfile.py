"""The DAG file of a submission, built again as it was in the run's version."""

import linecache
import sys
from pathlib import Path

from tidegate.daemon.spark.job import Job
from tidegate.schemas.authoring.build import build
from tidegate.schemas.authoring.dag import Dag


def load(job: Job) -> Dag | None:
    """The run's DAG, from a file that may import from the DAG folder; None where the file builds no such DAG here."""
    spec = job.spec
    sys.path.insert(0, job.dags_folder)
    filename = str(Path(job.dags_folder, spec.dag_path))
    # Tracebacks show lines; the file of that name may have changed since.
    linecache.cache[filename] = (len(spec.source), None, spec.source.splitlines(keepends=True), filename)
    return next((dag for dag in build(spec.source, filename) if dag.dag_id == spec.run.dag_id), None)
