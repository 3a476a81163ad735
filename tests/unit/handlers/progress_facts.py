"""Facts about running runs."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.shapes import NOW
from tests.unit.handlers.task_facts import run_and_dag
from tidegate.handlers.explain.run_progress import ProgressFacts, progress
from tidegate.schemas.explain import reasons
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries.pools import PoolRow
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import Instance

NONE, SCHEDULED, QUEUED, RUNNING = TaskState.NONE, TaskState.SCHEDULED, TaskState.QUEUED, TaskState.RUNNING
S, F, K = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED
RETRY, GIVEN_UP = TaskState.UP_FOR_RETRY, TaskState.UPSTREAM_FAILED


def facts(run: Mapping[str, Any] | None = None, **others: Any) -> ProgressFacts:
    """A running run, alone in a pool of ten slots, but for the facts given."""
    return ProgressFacts(**{"now": NOW, "pools": pools(slots=10), **run_and_dag(run or {}), **others})


def pools(slots: int, *, running: int = 0, queued: int = 0, name: str = "default_pool") -> Mapping[str, PoolRow]:
    return {name: PoolRow(name, slots, running, queued, 0)}


def instances(graph: Graph, *states: TaskState, **changed: Any) -> list[Instance]:
    """One of each task, counted; the last one changed."""
    found = [Instance(index, state, awaited=graph.nodes[index].upstream_count) for index, state in enumerate(states)]
    for instance in found:
        above = [found[index].state for index in graph.upstream[instance.index]]
        instance.success, instance.failed, instance.skipped = above.count(S), above.count(F), above.count(K)
        instance.upstream_failed = above.count(GIVEN_UP)
    found[-1] = msgspec.structs.replace(found[-1], **changed)
    return found


def blocks(graph: Graph, waits: list[Instance], around: ProgressFacts | None = None) -> tuple[reasons.Reason, ...]:
    """What the last task of a run waits for."""
    *_, last = progress(graph, waits, around or facts()).waiting
    assert last.task_id == graph.nodes[-1].task.task_id
    return last.blocked_by
