"""Decide about all tasks of a run: after a clear, after progress of the previous run, or to fail the run."""

from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.load import lock_runs, read_dags
from tidegate.handlers.runs.failures import MAX_FAILED_TASKS, failed_tasks, reason_of, with_failure_reasons
from tidegate.handlers.runs.reason import Reason
from tidegate.handlers.runs.task_effects import insert_task, update_task
from tidegate.handlers.runs.terminate import fail
from tidegate.handlers.runs.transition import change_run
from tidegate.handlers.scheduling.next_runs import RunEnd, end_of, schedule_each_after_ends
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.handlers.tasks.advance import NO_LENGTHS, Advance, decide_again
from tidegate.handlers.tasks.previous_run import blocking_tasks
from tidegate.handlers.tasks.upstream_counts import recount, upstream_of
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import ReconsiderAfter
from tidegate.schemas.error import Faults
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.message import Message, RunReconsidered
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.queries import dags, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RUN_ENDED, TASK_ENDED, RunState, TaskState, run_state
from tidegate.schemas.view import DagView, Instance, PreviousRun, RunView


class State(msgspec.Struct, frozen=True):
    """The runs with all their tasks, under the locks of their DAGs.

    `stops` has the reason to fail a run, by run; none where the failed task was cleared meanwhile. `lengths`: by run and task,
    the number of elements of a list that a task has returned and others are mapped over. `failures` are the first failed tasks,
    by run.
    """

    now: datetime
    dags: tuple[DagView, ...]
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]
    tasks: Mapping[int, Mapping[int, Instance]]
    previous: Mapping[int, PreviousRun]
    stops: Mapping[int, str]
    lengths: Mapping[int, Mapping[int, int]] = {}
    failures: Mapping[int, tuple[FailedTask, ...]] = {}


async def load(db: Db, messages: Sequence[Message[RunReconsidered]]) -> State:
    ids = [message.body.dag_run_id for message in messages]
    locked_dags = await dags.lock(db, await runs.dags_of(db, ids), skips=True)
    locked = await lock_runs(db, ids, locked_dags, skips=True)
    reasons = await runs.dequeue_reconsiderations(db, ids, locked)  # a held DAG keeps its requests for its release
    graphs = await versions.of_runs(db, locked.values())
    instances = await tasks.of_runs(db, locked)
    may_end = Counter(run.dag_id for run in locked.values() if run.state is RunState.RUNNING and run.is_live)
    return State(
        now=db.now,
        dags=await read_dags(db, locked_dags, ReadReason(ending_runs=may_end)),
        runs={id_: run for id_, run in locked.items() if id_ in reasons},
        graphs=graphs,
        tasks=instances,
        previous=await runs.previous(db, [run.id for run in locked.values() if graphs[run.version_id].sequential]),
        stops={id_: reason for id_, reason in reasons.items() if reason and has_failed(instances.get(id_, {}))},
        lengths=await _lengths(db, {id_: graphs[run.version_id] for id_, run in locked.items()}),
        failures=await tasks.failures(db, [id_ for id_, found in instances.items() if has_failed(found)], MAX_FAILED_TASKS),
    )


def has_failed(instances: Mapping[int, Instance]) -> bool:
    return any(instance.state is TaskState.FAILED for instance in instances.values())


async def _lengths(db: Db, of_run: Mapping[int, Graph]) -> Mapping[int, Mapping[int, int]]:
    over = {(id_, node.over) for id_, graph in of_run.items() if graph.mapped for node in graph.nodes}
    lengths: dict[int, dict[int, int]] = defaultdict(dict)
    for (id_, index), length in (await tasks.lengths(db, [(id_, index) for id_, index in over if index is not None])).items():
        lengths[id_][index] = length
    return lengths


def decide(_messages: Sequence[Message[RunReconsidered]], state: State) -> Iterator[Effect]:
    ended: dict[str, list[RunEnd]] = defaultdict(list)
    running = [run for run in state.runs.values() if run.state is RunState.RUNNING]
    with Faults() as faults:
        for run in running:
            with faults.of(run.dag_id):
                after = yield from _stop_or_reconsider(run, state)
                if after in RUN_ENDED and run.is_live:
                    ended[run.dag_id].append(end_of(run, after))
        yield from schedule_each_after_ends(state.dags, ended, state.now)


def _stop_or_reconsider(run: RunView, state: State) -> Generator[Effect, None, RunState]:
    """Returns the state that the run gets."""
    graph, instances = state.graphs[run.version_id], state.tasks.get(run.id, {})
    if reason := state.stops.get(run.id):
        failed = state.failures.get(run.id, ())
        yield from fail(run, graph, tuple(instances.values()), state.now, reason=reason, failed=failed)
        return RunState.FAILED
    return (yield from _reconsider(run, graph, instances, state))


def _reconsider(run: RunView, graph: Graph, instances: Mapping[int, Instance], state: State) -> Generator[Effect, None, RunState]:
    """Returns the state that the run gets."""
    previous, now = state.previous.get(run.id), state.now
    released = {i: task for i, task in instances.items() if task.waits_for_past and not blocking_tasks(previous, graph, i)}
    for instance in released.values():
        instance.waits_for_past = False
    changed = released | _recount_all(graph, instances)
    step = decide_again(graph, instances, state.lengths.get(run.id, NO_LENGTHS))
    failed = failed_tasks(graph, step, state.failures.get(run.id, ()))
    step = with_failure_reasons(graph, step, failed)
    changed |= {instance.index: instance for instance in step.changed}
    after, deadlock = _after(run, graph, step, {**instances, **changed, **{new.index: new for new in step.added}})
    yield from (insert_task(run, new, graph.node(new.index).task, now) for new in step.added)
    yield from (update_task(run, instance, now) for instance in changed.values())
    yield from change_run(run, after, graph, step.moves, now, Reason(deadlock) if deadlock else reason_of(after.state, failed))
    if graph.sequential and step.ended:
        yield ReconsiderAfter(run.dag_id, run.id)
    return after.state


def _recount_all(graph: Graph, instances: Mapping[int, Instance]) -> dict[int, Instance]:
    """The waiting tasks whose upstream counts have changed, because tasks before them were cleared."""
    changed = {}
    for index, instance in instances.items():
        if instance.state is TaskState.NONE and element_of(index) is None:
            before = upstream_of(instance)
            recount(graph, instances, index)
            if before != upstream_of(instance):
                changed[index] = instance
    return changed


def _after(run: RunView, graph: Graph, step: Advance, instances: Mapping[int, Instance]) -> tuple[RunView, str]:
    """The run after this step, and the deadlock that fails it, if any. `instances` are all its tasks after the step."""
    unfinished = sum(task.state not in TASK_ENDED for index, task in instances.items() if element_of(index) is None)
    failed_leaves = run.failed_leaves + step.failed_leaves
    deadlock = _deadlock(graph, instances.values())
    state = RunState.FAILED if deadlock else run_state(unfinished, failed_leaves)
    return msgspec.structs.replace(run, state=state, unfinished=unfinished, failed_leaves=failed_leaves), deadlock


def _deadlock(graph: Graph, instances: Collection[Instance]) -> str:
    """Describes a run in which tasks wait for upstream tasks, and no task is active, ready, or due for a retry; else empty."""
    waiting = [instance for instance in instances if instance.state is TaskState.NONE]
    if not waiting or any(instance.waits_for_past for instance in waiting):
        return ""
    if any(instance.state is not TaskState.NONE and instance.state not in TASK_ENDED for instance in instances):
        return ""
    names = ", ".join(graph.label(instance.index) for instance in waiting)
    return f"deadlock: no task of the run can run any more, and these have not: {names}"
