"""What the end of attempts means: for their tasks, their runs, and what waits for room in their DAGs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import UNSET

from tidegate.handlers.load_dags import read_dags
from tidegate.handlers.runs.create import run_ended, tasks_moved
from tidegate.handlers.runs.rows import insert_task, update_task
from tidegate.handlers.scheduling.next_runs import settle_after
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.handlers.tasks.advance import NO_LISTS, Advance, Finish, advance
from tidegate.handlers.tasks.affected import reach
from tidegate.handlers.tasks.outcome import meant, wrong_result
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import Reconsider, ReconsiderAfter, UpdateRun
from tidegate.schemas.effect.submission import EndSubmission
from tidegate.schemas.effect.task import StoreResult
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries import dags, runs, submissions, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.submissions import Whereabouts
from tidegate.schemas.state import (
    RUN_ENDED,
    SUBMISSION_OPEN,
    TASK_ACTIVE,
    RunState,
    SubmissionState,
    TaskState,
    run_state,
)
from tidegate.schemas.view import DagView, Instance, RunView, SubmissionView
from tidegate.schemas.wire.event import TaskFinished, storable

CLEARED = "cleared by a user"
STUCK = "it was not submitted in time"
REQUEUED = 2
"""How often an attempt that was not submitted in time is queued anew, before that counts as a failure."""

FAIL_FAST = "a task failed, and the DAG is to fail fast"


class State(msgspec.Struct, frozen=True):
    """Everything the ends of these attempts may touch, under the locks of their DAGs and runs.

    `dags` are those of runs that may end now: what waits for the others cannot start anyway. `lengths`: how many elements the
    lists have that tasks returned over which others are mapped.
    """

    now: datetime
    dags: tuple[DagView, ...]
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]
    submissions: Mapping[UUID, SubmissionView]
    tasks: Mapping[tuple[int, int], Instance]
    lengths: Mapping[tuple[int, int], int] = {}


async def load(db: Db, finishes: Sequence[TaskFinished]) -> State:
    """Lock what the finishes concern. Attempts that nobody submitted are not in the state."""
    ids = {finish.submission_id for finish in finishes}
    places = await submissions.find(db, ids)
    held = await dags.lock(db, {place.dag_id for place in places.values()})
    locked = await runs.lock(db, {place.dag_run_id for place in places.values()})
    if any(place.version_id != locked[place.dag_run_id].version_id for place in places.values()):
        places = await submissions.find(db, ids)  # a run went on with another version meanwhile
    graphs = await versions.graphs(db, {run.version_id for run in locked.values()})
    touched = _reach(finishes, places, graphs)
    own = {(place.dag_run_id, place.task_index) for place in places.values()}
    attempts, instances = await submissions.read_with_tasks(db, places.keys(), touched - own) if places else ({}, {})
    freeing = _freeing(locked.values(), touched)
    freed = await read_dags(db, {dag_id: held[dag_id] for dag_id in freeing}, ReadReason(ending_runs=freeing))
    return State(db.now, freed, locked, graphs, attempts, instances, await _mapped_over(db, touched, locked, graphs))


async def _mapped_over(
    db: Db, touched: Iterable[tuple[int, int]], locked: Mapping[int, RunView], graphs: Mapping[int, Graph]
) -> Mapping[tuple[int, int], int]:
    of_run = {id_: graph for id_, run in locked.items() if (graph := graphs[run.version_id]).mapped}
    over = {(run, of_run[run].node(index).over) for run, index in touched if run in of_run}
    return await tasks.lengths(db, [(run, index) for run, index in over if index is not None])


def ended_already(finish: TaskFinished, state: State) -> str | None:
    """Why a finish changes nothing; None when it counts."""
    attempt = state.submissions[finish.submission_id]
    task = state.tasks[attempt.dag_run_id, attempt.task_index]
    if attempt.state in SUBMISSION_OPEN:
        return None
    if task.try_number > attempt.try_number:
        return f"try {attempt.try_number} was superseded by try {task.try_number}"
    return f"the attempt had already {attempt.state}"


def moved_on(finish: TaskFinished, state: State) -> str | None:
    """Why the end of an open attempt means nothing to its task any more; None when it does."""
    attempt = state.submissions[finish.submission_id]
    task = state.tasks[attempt.dag_run_id, attempt.task_index]
    if task.state in TASK_ACTIVE and task.try_number == attempt.try_number:
        return None
    return f"its task was {task.state} by then"


def take(finishes: Sequence[TaskFinished], state: State) -> Iterator[Effect]:
    """Follow these ends, each of an open attempt, none twice."""
    by_run: dict[int, list[TaskFinished]] = defaultdict(list)
    for finish in finishes:
        yield end_of(finish, state.now)
        yield from _result_of(finish, state.submissions[finish.submission_id])
        by_run[state.submissions[finish.submission_id].dag_run_id].append(finish)
    ended: dict[str, list[RunState]] = defaultdict(list)
    found: dict[int, dict[int, Instance]] = defaultdict(dict)
    for (dag_run_id, index), instance in state.tasks.items():
        found[dag_run_id][index] = instance
    for dag_run_id, of_run in by_run.items():
        run = state.runs[dag_run_id]
        step = _step(run, of_run, found[dag_run_id], state)
        yield from _task_effects(run, step, state)
        after = _after(run, step, len(of_run))
        yield from _run_effects(run, after, state.graphs[run.version_id], state.now)
        yield from _afterthoughts(run, step, after, state.graphs[run.version_id])
        if after.state in RUN_ENDED:
            ended[run.dag_id].append(after.state)
    for dag in state.dags:
        yield from settle_after(dag, ended[dag.graph.dag_id], state.now)


def _reach(
    finishes: Sequence[TaskFinished], places: Mapping[UUID, Whereabouts], graphs: Mapping[int, Graph]
) -> set[tuple[int, int]]:
    """What the ends may touch at most: one that means less, because its attempt was to be killed, touches its task alone."""
    by_run: dict[tuple[int, int], list[Finish]] = defaultdict(list)
    for finish in finishes:
        if place := places.get(finish.submission_id):
            by_run[place.dag_run_id, place.version_id].append(meant(finish, place.task_index, place.try_number))
    return {(run, index) for (run, version), ends in by_run.items() for index in reach(graphs[version], ends)}


def _freeing(locked: Iterable[RunView], touched: Iterable[tuple[int, int]]) -> Counter[str]:
    """By DAG, how many runs may end: those with no more unfinished tasks than are touched."""
    of_run = Counter(dag_run_id for dag_run_id, _ in touched)
    return Counter(run.dag_id for run in locked if 0 < run.unfinished <= of_run[run.id])


def _finish(finish: TaskFinished, attempt: SubmissionView) -> Finish:
    """What an end means to the task of its attempt."""
    if attempt.kill_reason == CLEARED:
        return Finish(attempt.task_index, attempt.try_number, TaskState.NONE, CLEARED)
    if attempt.kill_reason == STUCK and finish.outcome in UNDONE and attempt.killed_before % (REQUEUED + 1) < REQUEUED:
        return Finish(attempt.task_index, attempt.try_number, TaskState.SCHEDULED, STUCK)
    by_itself = meant(finish, attempt.task_index, attempt.try_number)
    killed_for = attempt.kill_reason if finish.outcome == "killed" else None
    return msgspec.structs.replace(by_itself, reason=killed_for) if killed_for else by_itself


def _result_of(finish: TaskFinished, attempt: SubmissionView) -> Iterator[StoreResult]:
    if finish.outcome == "succeeded" and finish.result not in (None, UNSET) and not wrong_result(finish.result):
        yield StoreResult(attempt.dag_run_id, attempt.task_index, finish.result)


UNDONE = frozenset({"killed", "lost"})


def _step(run: RunView, finishes: Sequence[TaskFinished], instances: Mapping[int, Instance], state: State) -> Advance:
    ends = [_finish(finish, state.submissions[finish.submission_id]) for finish in finishes]
    graph = state.graphs[run.version_id]
    lengths = _lengths(run, finishes, instances, state) if graph.mapped else NO_LISTS
    return advance(graph, instances, ends, state.now, run=run.run_id, lengths=lengths)


def _lengths(
    run: RunView, finishes: Sequence[TaskFinished], instances: Mapping[int, Instance], state: State
) -> Mapping[int, int]:
    """How many elements the lists have that tasks returned: those known before, and those that come with these finishes."""
    lengths = {index: length for (dag_run_id, index), length in state.lengths.items() if dag_run_id == run.id}
    lengths |= {index: instance.elements for index, instance in instances.items() if instance.elements}
    returned = {state.submissions[finish.submission_id].task_index: finish.result for finish in finishes}
    return lengths | {index: len(result) for index, result in returned.items() if isinstance(result, list)}


def end_of(finish: TaskFinished, now: datetime) -> EndSubmission:
    """The end of the attempt: one that says its task is to be skipped did what it had to."""
    outcome = "succeeded" if finish.outcome == "skipped" else finish.outcome
    return EndSubmission(
        finish.submission_id,
        SubmissionState(outcome),
        storable(finish.reason),
        finish.exit_code,
        finish.started_at,
        finish.finished_at or now,
    )


def _task_effects(run: RunView, step: Advance, state: State) -> Iterator[Effect]:
    graph = state.graphs[run.version_id]
    yield from (insert_task(run, born, graph.node(born.index).task, state.now) for born in step.born)
    for instance in step.touched:
        yield update_task(run, instance, state.now)
    yield from tasks_moved(run, graph, step, state.now)


def _after(run: RunView, step: Advance, ended: int) -> UpdateRun:
    """The run after `ended` of its attempts did."""
    unfinished = run.unfinished - step.ended
    failed_leaves = run.failed_leaves + step.failed_leaves
    seq = run.task_seq + len(step.moves)
    after = run_state(unfinished, failed_leaves)
    return UpdateRun(run.id, after, run.state_seq, seq, unfinished, failed_leaves, run.active_tasks - ended, run.start_date)


def _run_effects(run: RunView, after: UpdateRun, graph: Graph, now: datetime) -> Iterator[Effect]:
    if after.state not in RUN_ENDED:
        yield after
        return
    yield msgspec.structs.replace(after, state_seq=run.state_seq + 1, end_date=now)
    yield from run_ended(run, graph, after.state, run.state_seq + 1, now)


def _afterthoughts(run: RunView, step: Advance, after: UpdateRun, graph: Graph) -> Iterator[Effect]:
    """What the ends mean beyond the tasks that come next."""
    if any(move.state is TaskState.NONE for move in step.moves):
        yield Reconsider(run.id)
    if graph.fail_fast and step.failed and after.state not in RUN_ENDED:
        yield Reconsider(run.id, FAIL_FAST)
    if graph.sequential and step.ended:
        yield ReconsiderAfter(run.dag_id, run.id)
