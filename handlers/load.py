"""Loads that several messages share: DAGs, a whole run, attempts; each under its locks."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import msgspec

from tidegate.handlers.scheduling.read_plan import ReadReason, needs_more_events, read_plan, with_more_events
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.error import Faults
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import AttemptStuck, AttemptTimedOut, Message, SubmissionAccepted
from tidegate.schemas.queries import dags, runs, submissions, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.read_plan import ReadPlan
from tidegate.schemas.state import RUN_ENDED
from tidegate.schemas.view import DagView, Instance, LockedDag, RunView, SubmissionView

ANY_REASON = ReadReason()

OfAttempt = TypeVar("OfAttempt", AttemptStuck, AttemptTimedOut, SubmissionAccepted)


class LockedDags(msgspec.Struct, frozen=True):
    """DAGs, locked. Ids that do not exist are left out. `skipped`: other sessions hold their rows."""

    now: datetime
    dags: tuple[DagView, ...]
    skipped: Sequence[str] = ()


class WholeRun(msgspec.Struct, frozen=True):
    """A run with its DAG and all its tasks, locked. `run` and `graph` are None if there is no such run.

    `dag` is None if it does not exist, or was not read.
    """

    now: datetime
    dag: DagView | None = None
    run: RunView | None = None
    graph: Graph | None = None
    tasks: tuple[Instance, ...] = ()
    dag_exists: bool = True


class LockedAttempts(msgspec.Struct, frozen=True):
    """Attempts with their tasks, by run and index, under the locks of their runs."""

    now: datetime
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]
    submissions: Mapping[UUID, SubmissionView]
    tasks: Mapping[tuple[int, int], Instance]

    def spec_of(self, attempt: SubmissionView) -> BaseTask:
        """The task as its author wrote it."""
        return self.graphs[self.runs[attempt.dag_run_id].version_id].node(attempt.task_index).task


async def lock_dags(db: Db, dag_ids: Collection[str], reason: ReadReason = ANY_REASON) -> LockedDags:
    """Lock DAGs in the global order and read what their next decisions need."""
    found = await read_dags(db, await dags.lock(db, dag_ids), reason)
    return LockedDags(db.now, found)


async def lock_free_dags(db: Db, dag_ids: Collection[str], reason: ReadReason = ANY_REASON) -> LockedDags:
    """As `lock_dags`; after a lock timeout, without the DAGs whose rows other sessions hold."""
    found = await read_dags(db, await dags.lock(db, dag_ids, skips=True), reason)
    return LockedDags(db.now, found, tuple(sorted(db.skipped.intersection(dag_ids))))


async def read_dags(db: Db, locked: Mapping[str, LockedDag], reason: ReadReason = ANY_REASON) -> tuple[DagView, ...]:
    """Read DAGs that are locked already."""
    if not locked:
        return ()
    activity = await dags.activity(db, locked)
    plans = {}
    with Faults() as faults:
        for dag_id, dag in locked.items():
            with faults.of(dag_id):
                plans[dag_id] = read_plan(dag, activity[dag_id], reason, db.now, db.run_events)
    found = {dag.graph.dag_id: dag for dag in await dags.read(db, locked, activity, plans)}
    while larger := larger_plans(found, plans, db.now):
        plans |= larger
        again = await dags.read(db, {dag_id: locked[dag_id] for dag_id in larger}, activity, larger)
        found |= {dag.graph.dag_id: dag for dag in again}
    return tuple(found.values())


def larger_plans(found: Mapping[str, DagView], plans: Mapping[str, ReadPlan], now: datetime) -> dict[str, ReadPlan]:
    """The plans of the DAGs whose decisions need more events than were read."""
    larger = {}
    with Faults() as faults:
        for dag_id, dag in found.items():
            with faults.of(dag_id):
                if needs_more_events(dag, now):
                    larger[dag_id] = with_more_events(dag, plans[dag_id])
    return larger


async def lock_runs(db: Db, ids: Collection[int], locked_dags: Collection[str], *, skips: bool = False) -> Mapping[int, RunView]:
    """Lock runs under the locks of their DAGs. Unfinished runs of DAGs that were held when the DAGs were locked are left out.

    `skips` as in `Db.lock`, also for the runs of DAGs that were skipped.
    """
    locked = await runs.lock(db, ids, skips=skips)
    return {id_: run for id_, run in locked.items() if run.state in RUN_ENDED or run.dag_id in locked_dags}


async def lock_run(db: Db, dag_id: str, run_id: str) -> WholeRun:
    locked_dags = await dags.lock(db, [dag_id])
    locked = await runs.lock(db, await runs.matching(db, dag_id, run_id, None, None)) if locked_dags else {}
    dag = next(iter(await read_dags(db, locked_dags, ReadReason(ending_runs={dag_id: 1}))), None)
    run = next(iter(locked.values()), None)
    if run is None:
        return WholeRun(db.now, dag)
    graphs = await versions.graphs(db, {run.version_id})
    return WholeRun(db.now, dag, run, graphs[run.version_id], await _tasks_of(db, run))


async def lock_run_unread(db: Db, dag_id: str, run_id: str) -> WholeRun:
    """As `lock_run`, without the DAG, and with the names of the tasks alone: for a held DAG, or where a version is unreadable."""
    is_known = dag_id in await dags.lock_unread(db, [dag_id])
    locked = await runs.lock_unread(db, await runs.matching(db, dag_id, run_id, None, None)) if is_known else {}
    run = next(iter(locked.values()), None)
    if run is None:
        return WholeRun(db.now, dag_exists=is_known)
    graphs = await versions.names_only(db, [run])
    return WholeRun(db.now, None, run, graphs[run.version_id], await _tasks_of(db, run))


async def _tasks_of(db: Db, run: RunView) -> tuple[Instance, ...]:
    return tuple((await tasks.of_runs(db, [run.id])).get(run.id, {}).values())


async def lock_attempts(db: Db, messages: Sequence[Message[OfAttempt]]) -> LockedAttempts:
    """The attempts that messages are about, but for held DAGs: their daemon takes them up again after the release."""
    ids = [message.body.submission_id for message in messages]
    locked = await runs.lock_of_attempts(db, ids)
    graphs = await versions.of_runs(db, locked.values())
    found, instances = await submissions.read_with_tasks(db, ids)
    attempts = {id_: attempt for id_, attempt in found.items() if attempt.dag_run_id in locked}
    return LockedAttempts(db.now, locked, graphs, attempts, instances)
