"""Facts about tasks that do not run."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from tests.shapes import NOW, graph, run_view
from tidegate.handlers.explain.task_facts import TaskFacts
from tidegate.handlers.tasks.upstream_counts import recount
from tidegate.schemas.explain.facts import AttemptFacts, DagStatus, RunFacts, TaskRow
from tidegate.schemas.explain.gates import TaskExplanation
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries.leases import JobRow, Terms
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance, RunView

BEFORE, LATER = NOW - timedelta(minutes=5), NOW + timedelta(minutes=5)
NONE, SCHEDULED, QUEUED, RUNNING = TaskState.NONE, TaskState.SCHEDULED, TaskState.QUEUED, TaskState.RUNNING
S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED
STATUS = DagStatus(
    "d.py",
    4,
    is_paused=False,
    is_stale=False,
    paused_at=None,
    stale_at=None,
    held_since=None,
    hold_reason=None,
    import_error=None,
    broken_since=None,
    running=["r1"],
)
RUN = RunFacts(run_view(state=RunState.RUNNING, start_date=BEFORE), 1, 1, 0, "r0", 3, BEFORE, None, 0, None)


DAEMON = JobRow("h", 7, BEFORE, NOW, Terms(), {}, UUID(int=7))
ATTEMPT = AttemptFacts("command", "accepted", BEFORE, BEFORE, BEFORE, NOW, None, "h", "", None, 0, has_owner=True)
TWO_AT_A_TIME = graph("a", limit=2)


def task_facts(dag: Graph, *states: TaskState, run: Mapping[str, Any] | None = None, **facts: Any) -> TaskFacts:
    """The last task of a run whose tasks are in these states, none before the run starts. `run` changes run and DAG."""
    instances = {index: Instance(index, state) for index, state in enumerate(states)}
    for index in instances:
        recount(dag, instances, index)
    index = max(instances, default=len(dag.nodes) - 1)
    usual: dict[str, Any] = {
        "now": NOW,
        "newest_graph": TWO_AT_A_TIME,
        "daemons": [DAEMON],
        "row": TaskRow("default_pool", BEFORE, None),
        "pool": "default_pool",
        **run_and_dag(run or {}),
    }
    instance = instances.get(index, Instance(index))
    return TaskFacts(graph=dag, instance=instance, instances=instances, **{**usual, **facts})


def run_and_dag(changed: Mapping[str, Any]) -> dict[str, Any]:
    """A running run and its DAG with these fields changed, of whichever of them they are."""
    of_run, of_view, of_dag = (_fields(changed, type_) for type_ in (RunFacts, RunView, DagStatus))
    run = msgspec.structs.replace(RUN, view=msgspec.structs.replace(RUN.view, **of_view), **of_run)
    return {"run": run, "dag": msgspec.structs.replace(STATUS, **of_dag)}


def _fields(changed: Mapping[str, Any], of: type[msgspec.Struct]) -> dict[str, Any]:
    return {name: changed[name] for name in of.__struct_fields__ if name in changed}


def queued(run: Mapping[str, Any] | None = None, **facts: Any) -> TaskFacts:
    """A task of a run that has not started."""
    changed = {"state": RunState.QUEUED, "start_date": None, **(run or {})}
    return task_facts(graph("a", "b < a"), run=changed, row=None, **facts)


def closed(page: TaskExplanation) -> dict[str, object]:
    return {gate.name: gate.reason for gate in page.closed}
