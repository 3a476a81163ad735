"""What is found around one task instance by who asks why it does not run. Nothing is locked, and nothing is decided by it."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.admission.capacity import AdmissionState
from tidegate.handlers.admission.load import preview_admission
from tidegate.schemas.explain.facts import RunFacts
from tidegate.schemas.graph import Graph, element_index, element_of
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries import leases, pools, progress, runs, tasks, versions, whynot
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import JobRow, Terms
from tidegate.schemas.queries.whynot import AttemptFacts, AtWork, Circumstances, Place
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance, PreviousRun, TaskKey

MOST_BEFORE = 2_000
"""Of more than that in the queue before it, the rest is not looked at."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A task instance and what surrounds it.

    `graph` is of the version its run is pinned to, `newest` of the DAG's newest one. `instances` are all of its run, none before
    that starts. `admission`, while it waits for slots: what an admission would find, with all that comes before it, and it as the
    last. `occupied` slots of its pool are taken, `active` tasks work in the whole installation. `in_pool`, `in_run` and `of_task`
    are the first few of those that take slots of its pool, that work in its run, and that work of the same task.
    """

    now: datetime
    graph: Graph
    run: RunFacts
    newest: Graph
    around: Circumstances
    instance: Instance
    instances: Mapping[int, Instance] = {}
    past: PreviousRun | None = None
    place: Place | None = None
    admission: AdmissionState | None = None
    attempt: AttemptFacts | None = None
    occupied: int = 0
    active: int = 0
    in_pool: Sequence[AtWork] = ()
    in_run: Sequence[AtWork] = ()
    of_task: Sequence[AtWork] = ()
    daemons: Sequence[JobRow] = ()

    @property
    def label(self) -> str:
        return self.graph.label(self.instance.index)

    @property
    def has_started(self) -> bool:
        """Whether its run has."""
        return self.run.run.state is not RunState.QUEUED

    @property
    def is_there(self) -> bool:
        """Whether the run has it, or will have it once it starts."""
        return self.place is not None or (not self.has_started and element_of(self.instance.index) is None)

    @property
    def limited(self) -> Sequence[tuple[str, int, str]]:
        """The active instances of tasks with limits of their own, as (DAG, run, task), as far as they matter."""
        return self.admission.limited if self.admission else ()

    def state_of(self, position: int) -> TaskState:
        """The state of a task of its run."""
        found = self.instances.get(position)
        return found.state if found else TaskState.NONE


async def load(db: Db, dag_id: str, run_id: str, index: int, terms: Terms) -> Found:
    """Of a run that exists. `terms` are taken for those of the daemons where none is alive."""
    facts = await progress.run_facts(db, dag_id, run_id)
    run = facts.run
    graphs = await versions.graphs(db, {run.version_id, facts.newest_version_id})
    graph = graphs[run.version_id]
    instances = (await tasks.of_runs(db, [run.id])).get(run.id, {})
    instance = instances.get(index) or Instance(index)
    daemons = await leases.live(db)
    terms = daemons[0].terms if daemons else terms
    key, place = (run.id, index), await whynot.place(db, (run.id, index))
    pool = place.pool if place else graph.node(index).task.pool
    rows = await pools.list_pools(db, pool)
    return Found(
        now=db.now,
        graph=graph,
        run=facts,
        newest=graphs[facts.newest_version_id],
        around=await whynot.circumstances(db, run.id),
        instance=instance,
        instances=instances,
        past=(await runs.previous(db, [run.id])).get(run.id) if graph.sequential else None,
        place=place,
        admission=await _admission(db, key, pool, terms) if instance.state is TaskState.SCHEDULED else None,
        attempt=await whynot.attempt(db, key),
        occupied=sum(row.running + row.queued for row in rows),
        active=await pools.active(db),
        in_pool=await whynot.in_pool(db, pool),
        in_run=await whynot.in_run(db, run.id),
        of_task=await whynot.of_task(db, dag_id, graph.node(index).task.task_id),
        daemons=daemons,
    )


async def _admission(db: Db, key: TaskKey, pool: str, terms: Terms) -> AdmissionState:
    before = await whynot.before(db, key, MOST_BEFORE)
    ready = TasksReady(pool=pool, limit=MOST_BEFORE, parallelism=terms.parallelism, fair_after_s=terms.fair_after_s)
    return await preview_admission(db, ready, [*before, key])


def index_of(graph: Graph, label: str) -> int | None:
    """The task index of `load`, or of `load[3]`; None where the run has no such task."""
    return next((index for index in _indices(graph, label) if graph.label(index) == label), None)


def _indices(graph: Graph, label: str) -> Sequence[int]:
    task_id, _, element = label.removesuffix("]").partition("[")
    positions = [position for position, node in enumerate(graph.nodes) if node.task.task_id == task_id]
    return [element_index(position, int(element)) if element.isdigit() else position for position in positions]
