"""What the end of attempts means: for their tasks, their runs, and what waits for room in their DAGs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tidegate.handlers.advance import Advance, Finish, Instance, advance, reach, run_state
from tidegate.handlers.settle import settle
from tidegate.handlers.start import moved, tasks_moved
from tidegate.schemas.effect import Effect, EndSubmission, UpdateRun, UpdateTask
from tidegate.schemas.event import TaskFinished, storable
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries import dags, runs, submissions, tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RUN_ENDED, SUBMISSION_OPEN, TASK_ENDED, SubmissionState
from tidegate.schemas.view import DagView, RunView, SubmissionView, TaskView


class State(msgspec.Struct, frozen=True):
    """Everything the ends of these attempts may touch, under the locks of their DAGs and runs.

    `dags` are those of runs that may end now: what waits for the others cannot start anyway.
    """

    now: datetime
    dags: tuple[DagView, ...]
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]
    submissions: Mapping[UUID, SubmissionView]
    tasks: Mapping[tuple[int, int], TaskView]


async def load(db: Db, finishes: Sequence[TaskFinished]) -> State:
    """Lock what the finishes concern. Attempts that nobody submitted are not in the state."""
    whereabouts = await submissions.find(db, {finish.submission_id for finish in finishes})
    held = await dags.hold(db, {place.dag_id for place in whereabouts.values()})
    locked = await runs.lock(db, {place.dag_run_id for place in whereabouts.values()})
    attempts = await submissions.read(db, whereabouts.keys()) if whereabouts else {}
    graphs = await dags.graphs(db, {run.version_id for run in locked.values()})
    touched = _reach([finish for finish in finishes if finish.submission_id in attempts], attempts, locked, graphs)
    instances = await tasks.instances(db, touched)
    freeing = _freeing(locked.values(), touched)
    freed = await dags.look(db, {dag_id: held[dag_id] for dag_id in freeing}, freeing=freeing)
    return State(db.now, freed, locked, graphs, attempts, instances)


def ended_already(finish: TaskFinished, state: State) -> str | None:
    """Why a finish changes nothing; None when it counts."""
    attempt = state.submissions[finish.submission_id]
    task = state.tasks[attempt.dag_run_id, attempt.task_index]
    if task.try_number > attempt.try_number:
        return f"try {attempt.try_number} was superseded by try {task.try_number}"
    if attempt.state not in SUBMISSION_OPEN:
        return f"the attempt had already {attempt.state}"
    if state.runs[attempt.dag_run_id].state in RUN_ENDED:
        return "the run had already ended"
    return None


def take(finishes: Sequence[TaskFinished], state: State) -> Iterator[Effect]:
    """Follow these ends, each of an open attempt, none twice."""
    by_run: dict[int, list[TaskFinished]] = defaultdict(list)
    for finish in finishes:
        yield _end_of(finish, state.now)
        by_run[state.submissions[finish.submission_id].dag_run_id].append(finish)
    ended: Counter[str] = Counter()
    for dag_run_id, of_run in by_run.items():
        run = state.runs[dag_run_id]
        step = _step(run, of_run, state)
        yield from _task_effects(run, step, state)
        yield from _run_effects(run, step, state.now)
        ended[run.dag_id] += _after(run, step).state in RUN_ENDED
    for dag in state.dags:
        if ended[dag.graph.dag_id]:
            yield from settle(msgspec.structs.replace(dag, running=dag.running - ended[dag.graph.dag_id]), state.now)


def _reach(
    finishes: Sequence[TaskFinished],
    attempts: Mapping[UUID, SubmissionView],
    locked: Mapping[int, RunView],
    graphs: Mapping[int, Graph],
) -> set[tuple[int, int]]:
    by_run: dict[int, list[Finish]] = defaultdict(list)
    for finish in finishes:
        attempt = attempts[finish.submission_id]
        by_run[attempt.dag_run_id].append(_finish(finish, attempt))
    return {
        (dag_run_id, index) for dag_run_id, ends in by_run.items() for index in reach(graphs[locked[dag_run_id].version_id], ends)
    }


def _freeing(locked: Iterable[RunView], touched: Iterable[tuple[int, int]]) -> Counter[str]:
    """By DAG, how many runs may end: those with no more unfinished tasks than are touched."""
    of_run = Counter(dag_run_id for dag_run_id, _ in touched)
    return Counter(run.dag_id for run in locked if 0 < run.unfinished <= of_run[run.id])


def _finish(finish: TaskFinished, attempt: SubmissionView) -> Finish:
    return Finish(attempt.task_index, attempt.try_number, finish.outcome == "succeeded", storable(finish.reason))


def _step(run: RunView, finishes: Sequence[TaskFinished], state: State) -> Advance:
    ends = [_finish(finish, state.submissions[finish.submission_id]) for finish in finishes]
    graph = state.graphs[run.version_id]
    instances = {index: _instance(state.tasks[run.id, index]) for index in reach(graph, ends)}
    return advance(graph, instances, ends, state.now)


def _instance(task: TaskView) -> Instance:
    return Instance(task.task_index, task.state, task.try_number, task.upstream_success, task.upstream_failed)


def _end_of(finish: TaskFinished, now: datetime) -> EndSubmission:
    return EndSubmission(
        finish.submission_id,
        SubmissionState(finish.outcome),
        storable(finish.reason),
        finish.exit_code,
        finish.started_at,
        finish.finished_at or now,
    )


def _task_effects(run: RunView, step: Advance, state: State) -> Iterator[Effect]:
    for instance in step.touched:
        yield UpdateTask(
            run.id,
            instance.index,
            instance.state,
            instance.try_number,
            instance.upstream_success,
            instance.upstream_failed,
            instance.next_try_at,
            None,
            state.now if instance.state in TASK_ENDED else None,
        )
    yield from tasks_moved(run, state.graphs[run.version_id], step, state.now)


def _after(run: RunView, step: Advance) -> UpdateRun:
    unfinished = run.unfinished - step.ended
    failed_leaves = run.failed_leaves + step.failed_leaves
    after = run_state(unfinished, failed_leaves)
    return UpdateRun(
        run.id, after, run.state_seq, run.task_seq + len(step.moves), unfinished, failed_leaves, run.start_date, None
    )


def _run_effects(run: RunView, step: Advance, now: datetime) -> Iterator[Effect]:
    after = _after(run, step)
    if after.state not in RUN_ENDED:
        yield after
        return
    yield msgspec.structs.replace(after, state_seq=run.state_seq + 1, end_date=now)
    yield moved(run, after.state, run.state_seq + 1, now)
