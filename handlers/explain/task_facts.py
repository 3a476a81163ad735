"""The facts that the explanation of a task instance starts from."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.admission.capacity import AdmissionState
from tidegate.handlers.admission.load import preview_admission
from tidegate.handlers.runs.task_effects import pool_of
from tidegate.schemas.backfill import BackfillCapacity
from tidegate.schemas.explain.facts import AttemptFacts, DagStatus, OccupyingTask, RunFacts, TaskRow
from tidegate.schemas.graph import MAX_ELEMENTS, Graph, element_index, element_of
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries import facts, leases, pools, row_holders, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import JobRow, Terms
from tidegate.schemas.queries.row_holders import HeldRow
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance, PreviousRun, TaskKey

MAX_QUEUE_READ = 2_000
"""The maximum of tasks that are read from the queue ahead of a task; the explanation leaves out the others."""


MAX_NAMED = 20
"""The maximum of instances of a mapped task that an explanation names."""


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A task instance with its run, its DAG and its pool.

    `graph` is the version that the run is pinned to, `newest_graph` the DAG's newest one. `instances` are the tasks of the run,
    none before it starts; `undone` are the first instances of the task, if it is mapped, that have not ended. `admission`, while
    the task waits for slots: what an admission would see, with the queue ahead of the task, and the task last. `occupied` slots
    of the `pool` are taken; `active` tasks of the installation are active. `in_pool`,
    `in_run` and `of_task` are the first few tasks that occupy the pool, the run, and the task's own limits. Another session holds
    the `held_row` of the DAG or of a run of it.
    """

    now: datetime
    graph: Graph
    newest_graph: Graph
    run: RunFacts
    dag: DagStatus
    instance: Instance
    instances: Mapping[int, Instance] = {}
    undone: Sequence[int] = ()
    previous: PreviousRun | None = None
    row: TaskRow | None = None
    pool: str
    admission: AdmissionState | None = None
    attempt: AttemptFacts | None = None
    occupied: int = 0
    active: int = 0
    in_pool: Sequence[OccupyingTask] = ()
    in_run: Sequence[OccupyingTask] = ()
    of_task: Sequence[OccupyingTask] = ()
    daemons: Sequence[JobRow] = ()
    held_row: HeldRow | None = None

    @property
    def label(self) -> str:
        return self.graph.label(self.instance.index)

    @property
    def has_started(self) -> bool:
        """Whether its run has started."""
        return self.run.view.state is not RunState.QUEUED

    @property
    def backfill(self) -> BackfillCapacity | None:
        """What its backfill may start, in its pool, while the task waits for slots."""
        return self.admission.backfills.get(self.run.view.backfill_id or 0) if self.admission else None

    @property
    def is_in_run(self) -> bool:
        """Whether the run has the task, or gets it when it starts."""
        return self.row is not None or (not self.has_started and element_of(self.instance.index) is None)

    @property
    def limited(self) -> Sequence[tuple[str, int, str]]:
        """The active instances of tasks with limits of their own, as (DAG, run, task), while the task waits for slots."""
        return self.admission.limited if self.admission else ()

    def state_of(self, position: int) -> TaskState:
        """The state of a task of its run."""
        instance = self.instances.get(position)
        return instance.state if instance else TaskState.NONE


async def load(db: Db, dag_id: str, run_id: str, index: int, terms: Terms) -> TaskFacts:
    """The run must exist. `terms` apply if no daemon is alive to report its own."""
    run = await facts.run_facts(db, dag_id, run_id)
    key, id_ = (run.view.id, index), run.view.id
    graphs = await versions.graphs(db, {run.view.version_id, run.newest_version_id})
    graph = graphs[run.view.version_id]
    instances = await tasks.without_elements(db, id_)
    instance = instances.get(index) or (await tasks.instances(db, [key])).get(key) or Instance(index)
    daemons = await leases.live(db)
    terms = daemons[0].terms if daemons else terms
    row = await facts.task_row(db, key)
    pool = row.pool if row else pool_of(run.view, graph.node(index).task)
    rows = await pools.list_pools(db, pool)
    return TaskFacts(
        now=db.now,
        graph=graph,
        newest_graph=graphs[run.newest_version_id],
        run=run,
        dag=await facts.dag_status(db, dag_id),
        instance=instance,
        instances=instances,
        undone=await tasks.undone_elements(db, key, MAX_NAMED) if instance.elements else (),
        previous=(await runs.previous(db, [id_])).get(id_) if graph.sequential else None,
        row=row,
        pool=pool,
        admission=await _admission(db, key, pool, terms) if instance.state is TaskState.SCHEDULED else None,
        attempt=await facts.attempt(db, key),
        occupied=sum(row.running + row.queued for row in rows),
        active=await pools.active(db),
        in_pool=await facts.occupying(db, pool=pool),
        in_run=await facts.occupying(db, dag_run_id=id_),
        of_task=await facts.occupying(db, limited=(dag_id, graph.node(index).task.task_id)),
        daemons=daemons,
        held_row=await row_holders.of_dag(db, dag_id),
    )


async def _admission(db: Db, key: TaskKey, pool: str, terms: Terms) -> AdmissionState:
    ahead = await facts.queue_before(db, key, MAX_QUEUE_READ)
    ready = TasksReady(pool=pool, limit=MAX_QUEUE_READ, parallelism=terms.parallelism, fair_after_s=terms.fair_after_s)
    return await preview_admission(db, ready, [*ahead, key])


def index_of(graph: Graph, label: str) -> int | None:
    """The task index of `load`, or of `load[3]`; None where the run has no such task."""
    task_id, _, text = label.removesuffix("]").partition("[")
    element = _element(text)
    positions = (position for position, node in enumerate(graph.nodes) if node.task.task_id == task_id)
    indices = (position if element is None else element_index(position, element) for position in positions)
    return next((index for index in indices if graph.label(index) == label), None)


def _element(text: str) -> int | None:
    """The number in brackets; None for a text that no instance has, or without brackets."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ELEMENTS))
    return int(text) if is_number and int(text) < MAX_ELEMENTS else None
