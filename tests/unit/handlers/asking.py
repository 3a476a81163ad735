"""Tasks that do not run, with what surrounds them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from tests.shapes import NOW, graph, run_view
from tidegate.handlers.explain.task_facts import Found
from tidegate.handlers.tasks.upstream_counts import recount
from tidegate.schemas.explain.facts import RunFacts
from tidegate.schemas.explain.gates import TaskExplanation
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries.leases import JobRow, Terms
from tidegate.schemas.queries.whynot import AttemptFacts, Circumstances, Place
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance

BEFORE, LATER = NOW - timedelta(minutes=5), NOW + timedelta(minutes=5)
NONE, SCHEDULED, QUEUED, RUNNING = TaskState.NONE, TaskState.SCHEDULED, TaskState.QUEUED, TaskState.RUNNING
S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED
AROUND = Circumstances("d.py", None, None, None, None, 3, BEFORE, None, 0, None, ["r1"])
RUN = RunFacts(
    run_view(state=RunState.RUNNING, start_date=BEFORE),
    1,
    is_paused=False,
    is_stale=False,
    running_runs=1,
    runs_ahead=0,
    run_before="r0",
)


DAEMON = JobRow("h", 7, BEFORE, NOW, Terms(), {})
ATTEMPT = AttemptFacts("command", "accepted", BEFORE, BEFORE, BEFORE, NOW, None, "h", "", None, 0, has_owner=True)
TWO_AT_A_TIME = graph("a", limit=2)


def found(dag: Graph, *states: TaskState, run: Mapping[str, Any] | None = None, **facts: Any) -> Found:
    """The last task of a run, with tasks in these states; those of a run that has not started have none."""
    instances = {index: Instance(index, state) for index, state in enumerate(states)}
    for index in instances:
        recount(dag, instances, index)
    index = max(instances, default=len(dag.nodes) - 1)
    around = {name: facts.pop(name) for name in Circumstances.__struct_fields__ if name in facts}
    given = dict(run or {})
    view = msgspec.structs.replace(RUN.run, **{name: given.pop(name) for name in list(given) if name in run_fields()})
    usual: dict[str, Any] = {
        "now": NOW,
        "newest": TWO_AT_A_TIME,
        "daemons": [DAEMON],
        "place": Place("default_pool", 1, BEFORE, None, None),
    }
    return Found(
        graph=dag,
        run=msgspec.structs.replace(RUN, run=view, **given),
        around=msgspec.structs.replace(AROUND, **around),
        instance=instances.get(index, Instance(index)),
        instances=instances,
        **{**usual, **facts},
    )


def run_fields() -> tuple[str, ...]:
    return RUN.run.__struct_fields__


def queued(**facts: Any) -> Found:
    """A task of a run that has not started."""
    run = {"state": RunState.QUEUED, "start_date": None, **facts.pop("run", {})}
    return found(graph("a", "b < a"), run=run, place=None, **facts)


def closed(page: TaskExplanation) -> dict[str, object]:
    return {gate.name: gate.reason for gate in page.closed}
