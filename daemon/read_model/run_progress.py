"""The active tasks of a run, and the reasons why the others wait."""

from tidegate.daemon.settings import Settings
from tidegate.handlers.explain.run_progress import ProgressFacts, progress
from tidegate.schemas.explain.gates import RunProgress
from tidegate.schemas.queries import facts, leases, pools, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunRow


async def read_page(db: Db, row: RunRow, settings: Settings) -> RunProgress:
    """`settings` apply as if they were those of the daemons."""
    run, dag = await facts.run_facts(db, row.dag_id, row.run_id), await facts.dag_status(db, row.dag_id)
    graphs = await versions.graphs(db, {run.view.version_id, run.newest_version_id})
    graph = graphs[run.view.version_id]
    limited = [node.task.task_id for node in graph.nodes if node.task.max_active_per_dag or node.task.max_active_per_run]
    instances = (await tasks.of_runs(db, [run.view.id])).get(run.view.id, {})
    known = ProgressFacts(
        now=db.now,
        run=run,
        dag=dag,
        max_active_runs=graphs[run.newest_version_id].max_active_runs,
        pools={pool.name: pool for pool in await pools.list_pools(db)},
        attempts={attempt.task_index: attempt for attempt in await facts.open_attempts(db, run.view.id)},
        attempted=await facts.scheduled_with_open_attempt(db, run.view.id),
        limited=await tasks.limited_activity(db, limited) if limited else (),
        parallelism=settings.parallelism,
        active=await pools.active(db) if settings.parallelism else 0,
        daemons=len(await leases.live(db)),
    )
    return progress(graph, list(instances.values()), known)
