"""The active tasks of a run, and the reasons why the others wait."""

from collections.abc import Collection, Mapping, Sequence

from tidegate.daemon.read_model.terms import terms_of
from tidegate.daemon.settings import Settings
from tidegate.handlers.explain.run_progress import ProgressFacts, progress, run_blockers
from tidegate.handlers.runs.task_effects import pool_of
from tidegate.schemas.backfill import BackfillCapacity
from tidegate.schemas.error import RequestError
from tidegate.schemas.explain.gates import RunProgress
from tidegate.schemas.explain.reasons import ProgressReason
from tidegate.schemas.queries import backfills, facts, leases, pools, run_pages, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import RunView

MOST_READ = 20_000
"""The most task instances of a run: while the process decides about them, it answers no other request."""


async def read_run_progress(db: Db, row: RunRow, settings: Settings) -> RunProgress:
    """`settings` apply while no daemon is alive. Raises RequestError for a run of too many task instances."""
    number = sum((await run_pages.states_of(db, row.dag_id, row.run_id)).values())
    if number > MOST_READ:
        raise RequestError(_too_large(row, number))
    return await progress_of(db, row, settings)


async def progress_of(db: Db, row: RunRow, settings: Settings) -> RunProgress:
    """As `read_run_progress`, of a run whose number of task instances is known to be small."""
    run, dag = await facts.run_facts(db, row.dag_id, row.run_id), await facts.dag_status(db, row.dag_id)
    graphs = await versions.graphs(db, {run.view.version_id, run.newest_version_id})
    graph = graphs[run.view.version_id]
    limited = [node.task.task_id for node in graph.nodes if node.task.max_active_per_dag or node.task.max_active_per_run]
    instances = (await tasks.of_runs(db, [run.view.id])).get(run.view.id, {})
    waiting = [graph.node(each.index).task for each in instances.values() if each.state is TaskState.SCHEDULED]
    daemons = await leases.live(db)
    parallelism = terms_of(daemons, settings).parallelism
    known = ProgressFacts(
        now=db.now,
        run=run,
        dag=dag,
        max_active_runs=graphs[run.newest_version_id].max_active_runs,
        pools={pool.name: pool for pool in await pools.list_pools(db)},
        backfills=await _capacities(db, run.view, {pool_of(run.view, task) for task in waiting}),
        attempts={attempt.task_index: attempt for attempt in await facts.open_attempts(db, run.view.id)},
        attempted=await facts.scheduled_with_open_attempt(db, run.view.id),
        limited=await tasks.limited_activity(db, limited) if limited else (),
        parallelism=parallelism,
        active=await pools.active(db) if parallelism else 0,
        daemons=len(daemons),
    )
    return progress(graph, list(instances.values()), known)


async def read_run_blockers(db: Db, dag_id: str, run_id: str) -> Sequence[ProgressReason]:
    """Why an unfinished run goes no further, beside the reasons of its tasks. Raises DagFaultError for an unreadable version."""
    run, dag = await facts.run_facts(db, dag_id, run_id), await facts.dag_status(db, dag_id)
    graph = (await versions.graphs(db, {run.newest_version_id}))[run.newest_version_id]
    daemons = len(await leases.live(db))
    return tuple(
        run_blockers(ProgressFacts(now=db.now, run=run, dag=dag, max_active_runs=graph.max_active_runs, daemons=daemons))
    )


def _too_large(row: RunRow, number: int) -> str:
    return (
        f"run {row.run_id!r} has {number:,} task instances, and what they wait for is said for at most {MOST_READ:,};"
        f" `tidegate tasks list {row.dag_id} {row.run_id} --state scheduled` lists the waiting tasks,"
        f" and `tidegate tasks why-not` says what one waits for"
    )


async def _capacities(db: Db, run: RunView, of_pools: Collection[str]) -> Mapping[str, BackfillCapacity]:
    """The capacity of the backfill of a run, by pool; none if it was deleted with its DAG."""
    if run.backfill_id is None:
        return {}
    found = {pool: await backfills.capacities(db, [run.backfill_id], pool) for pool in of_pools}
    return {pool: by_id[run.backfill_id] for pool, by_id in found.items() if run.backfill_id in by_id}
