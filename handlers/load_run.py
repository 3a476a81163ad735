"""One run under its lock, with its DAG and all its tasks."""

from datetime import datetime

import msgspec

from tidegate.handlers.load_dags import read_dags
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries import dags, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import DagView, Instance, RunView


class WholeRun(msgspec.Struct, frozen=True):
    """`dag` is None when it does not exist; so are `run` and `graph`."""

    now: datetime
    dag: DagView | None = None
    run: RunView | None = None
    graph: Graph | None = None
    tasks: tuple[Instance, ...] = ()


async def lock_run(db: Db, dag_id: str, run_id: str) -> WholeRun:
    locked_dags = await dags.lock(db, [dag_id])
    locked = await runs.lock(db, await runs.matching(db, dag_id, run_id, None, None)) if locked_dags else {}
    dag_views = await read_dags(db, locked_dags, ReadReason(ending_runs={dag_id: 1}))
    for run in locked.values():
        graphs = await versions.graphs(db, {run.version_id})
        instances = (await tasks.of_runs(db, [run.id])).get(run.id, {})
        return WholeRun(db.now, dag_views[0], run, graphs[run.version_id], tuple(instances.values()))
    return WholeRun(db.now, dag_views[0] if dag_views else None)
