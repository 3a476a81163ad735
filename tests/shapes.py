"""DAGs in a line, and what decisions find, for tests to vary."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tidegate.schemas.conditions.condition import Condition, DatasetRef
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask, TaskSpec, TriggerRule
from tidegate.schemas.effect.run import UpdateRun
from tidegate.schemas.graph import Graph, graph_of
from tidegate.schemas.message import Message
from tidegate.schemas.state import RunState, RunType
from tidegate.schemas.view import DagView, PendingEvent, QueuedRun, RunStatus, RunView
from tidegate.schemas.wire.event import EventId

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)

decode_spec = msgspec.json.Decoder(DagSpec).decode
"""A serialised DAG, as it is read again."""

A, B, C = DatasetRef("s://a"), DatasetRef("s://b"), DatasetRef("s://c")


def task(line: str, **facts: Any) -> TaskSpec:
    """`c*2 < a b`: a command with two retries after a and b; `c! < a b`: an empty task; `c:one_failed < a b`: with that rule."""
    name, _, upstream = line.partition("<")
    name, _, rule = name.strip().partition(":")
    name, _, retries = name.partition("*")
    if rule:
        facts["trigger_rule"] = TriggerRule(rule)
    if retries:
        facts["retries"] = int(retries)
    if name.endswith("!"):
        return EmptyTask(task_id=name.removesuffix("!"), upstream=tuple(upstream.split()), **facts)
    return CommandTask(task_id=name, upstream=tuple(upstream.split()), argv=("true",), **facts)


def spec(*lines: str | TaskSpec, dag_id: str = "d", schedule: Condition | None = None, limit: int = 16, **facts: Any) -> DagSpec:
    tasks = tuple(task(line) if isinstance(line, str) else line for line in lines)
    return DagSpec(dag_id=dag_id, schedule=schedule, max_active_runs=limit, tasks=tasks, **facts)


def graph(*lines: str | TaskSpec, version_id: int = 1, schedule: Condition | None = None, limit: int = 16, **facts: Any) -> Graph:
    return graph_of(version_id, spec(*lines, schedule=schedule, limit=limit, **facts))


def run_view(id_: int = 1, *, state: RunState = RunState.QUEUED, tasks: int = 1, version_id: int = 1, **facts: Any) -> RunView:
    """A run as it is when just queued, but for the facts given."""
    run = RunView(
        id=id_,
        dag_id="d",
        run_id=f"r{id_}",
        run_type=RunType.MANUAL,
        state=state,
        version_id=version_id,
        run_after=NOW,
        state_seq=1,
        task_seq=0,
        unfinished=tasks,
        failed_leaves=0,
        start_date=None,
    )
    return msgspec.structs.replace(run, **facts)


def run_update(run: RunView, **facts: Any) -> UpdateRun:
    """The write of the run's status with these changes, without an end."""
    return UpdateRun(**{name: getattr(run, name) for name in RunStatus.__struct_fields__} | facts, end_date=None)


def dag_view(graph: Graph, **facts: Any) -> DagView:
    """A DAG with nothing going on, but for the facts given."""
    nothing: dict[str, Any] = {"is_paused": False, "is_stale": False, "running": 0, "queued": 0, "next_run_id": 100}
    return DagView(graph=graph, **{**nothing, **facts})


def queued(graph: Graph, *ids: int) -> tuple[QueuedRun, ...]:
    return tuple(QueuedRun(run_view(id_, tasks=len(graph.nodes), version_id=graph.version_id), graph) for id_ in ids)


def pending(id_: int, dataset: DatasetRef = A, *, minutes: float = 0) -> PendingEvent:
    """An event that occurred a number of minutes after NOW."""
    return PendingEvent(ord(dataset.uri[-1]), id_, dataset.uri, NOW + timedelta(minutes=minutes))


def message(body: Any, id_: str | None = None) -> Message[Any]:
    """What happened now, from a producer `p` where it has an id."""
    return Message(body=body, at=NOW, id=None if id_ is None else EventId("p", id_))
