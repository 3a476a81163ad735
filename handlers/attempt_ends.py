"""Ends of attempts: their consequences for tasks, for runs, and for the next runs of the DAGs.

`task_finished`, `attempt_silent` and `attempt_unreachable` share this module. `load` locks what the ends may affect.
`already_ended` and `superseded` say which ends are ignored. `end_attempts` follows the others: attempts -> tasks -> runs -> DAGs.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import UNSET

from tidegate.handlers.load import lock_runs, read_dags
from tidegate.handlers.runs.failures import MAX_FAILED_TASKS, failed_tasks, failure_text, reason_of, with_failure_reasons
from tidegate.handlers.runs.task_effects import demand, end_reason, end_submission, insert_task, update_task
from tidegate.handlers.runs.transition import change_run
from tidegate.handlers.scheduling.next_runs import RunEnd, end_of, schedule_each_after_ends
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.handlers.tasks.advance import NO_LENGTHS, Advance, advance
from tidegate.handlers.tasks.affected import affected_tasks
from tidegate.handlers.tasks.attempt_end import AttemptEnd, attempt_end
from tidegate.handlers.tasks.upstream_counts import upstream_of
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import Reconsider, ReconsiderAfter
from tidegate.schemas.effect.task import AdmitAgain, SetTaskDemand, StoreResult
from tidegate.schemas.error import Faults
from tidegate.schemas.graph import Graph, is_removed
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.queries import dags, installation, submissions, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.submissions import AttemptRef
from tidegate.schemas.state import RUN_ENDED, SUBMISSION_OPEN, TASK_ACTIVE, TASK_ENDED, KillCause, TaskState, run_state
from tidegate.schemas.view import DagView, Instance, RunView, SubmissionView
from tidegate.schemas.wire.event import TaskFinished

MAX_REQUEUES = 2
"""How often a task whose attempts are not submitted in time is queued again before that counts as a failure."""

NOT_RUN = frozenset({"killed", "lost"})
"""The outcomes of an attempt that was killed. `lost`: its host, or its cluster, has not confirmed that."""

ATTEMPT_ENDED = "the attempt had already ended"
FAIL_FAST = "the DAG has fail_fast"


class State(msgspec.Struct, frozen=True):
    """What the ends of these attempts may affect, under the locks of their DAGs and runs.

    `dags` are the DAGs whose runs may end now. `tasks` are by run and index; so are `lengths`, the numbers of elements of the
    lists that tasks have returned and others are mapped over. `held` are the attempts of held DAGs, with their DAG; `locked_out`
    those of DAGs and runs whose rows other sessions hold. `tokens` are those of attempts without a row. `failures` are the first
    failed tasks, by run, where this batch may have to name them.
    """

    now: datetime
    dags: tuple[DagView, ...]
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]
    submissions: Mapping[UUID, SubmissionView]
    tasks: Mapping[tuple[int, int], Instance]
    lengths: Mapping[tuple[int, int], int] = {}
    held: Mapping[UUID, str] = {}
    locked_out: frozenset[UUID] = frozenset()
    tokens: Mapping[UUID, str] = {}
    failures: Mapping[int, tuple[FailedTask, ...]] = {}

    def attempt_of(self, finish: TaskFinished) -> tuple[SubmissionView, Instance]:
        """The attempt that ended, and its task."""
        attempt = self.submissions[finish.submission_id]
        return attempt, self.tasks[attempt.dag_run_id, attempt.task_index]


async def load(db: Db, finishes: Sequence[TaskFinished]) -> State:
    """Lock the rows that the ends may affect. Of unknown attempts only the tokens are read."""
    ids = {finish.submission_id for finish in finishes}
    found = await submissions.refs(db, ids)
    locked_dags = await dags.lock(db, {place.dag_id for place in found.values()}, skips=True)
    locked = await lock_runs(db, {place.dag_run_id for place in found.values()}, locked_dags, skips=True)
    if any(has_moved(place, locked.get(place.dag_run_id)) for place in found.values()):
        found = await submissions.refs(db, ids)
    places = {id_: place for id_, place in found.items() if place.dag_run_id in locked}
    locked_out = frozenset(id_ for id_ in found.keys() - places.keys() if is_locked_out(found[id_], db.skipped))
    held = {id_: found[id_].dag_id for id_ in found.keys() - places.keys() - locked_out}
    graphs = await versions.of_runs(db, locked.values())
    affected = affected_by(finishes, places, graphs)
    own = {(place.dag_run_id, place.task_index) for place in places.values()}
    known = places.keys() | locked_out
    attempts, instances = await submissions.read_with_tasks(db, known, affected - own) if known else ({}, {})
    may_end = runs_that_may_end(locked.values(), affected)
    freed = await read_dags(db, {dag_id: locked_dags[dag_id] for dag_id in may_end}, ReadReason(ending_runs=may_end))
    lengths = await _load_lengths(db, affected, locked, graphs)
    failures = await tasks.failures(db, runs_that_may_fail(locked.values(), affected, instances), MAX_FAILED_TASKS)
    unknown = ids - found.keys()
    tokens = await installation.tokens(db, unknown) if unknown else {}
    return State(db.now, freed, locked, graphs, attempts, instances, lengths, held, locked_out, tokens, failures)


def has_moved(place: AttemptRef, run: RunView | None) -> bool:
    """Whether the run changed to another version or was deleted before it was locked, or its DAG is held."""
    return run is None or place.version_id != run.version_id


def is_locked_out(place: AttemptRef, skipped: Collection[object]) -> bool:
    """Whether another session holds the row of the DAG or of the run."""
    return place.dag_id in skipped or place.dag_run_id in skipped


def affected_by(
    finishes: Sequence[TaskFinished], places: Mapping[UUID, AttemptRef], graphs: Mapping[int, Graph]
) -> set[tuple[int, int]]:
    """An upper bound of the affected instances: kill requests, which are read later, only exclude some.

    The end of an attempt of a removed task affects no other.
    """
    by_run: dict[tuple[int, int], list[AttemptEnd]] = defaultdict(list)
    for finish in finishes:
        if (place := places.get(finish.submission_id)) and not is_removed(place.task_index):
            by_run[place.dag_run_id, place.version_id].append(attempt_end(finish, place.task_index, place.try_number))
    return {(run, index) for (run, version), ends in by_run.items() for index in affected_tasks(graphs[version], ends)}


def runs_that_may_end(locked: Iterable[RunView], affected: Iterable[tuple[int, int]]) -> Counter[str]:
    """By DAG, the number of live runs that have no more unfinished tasks than are affected."""
    of_run = Counter(dag_run_id for dag_run_id, _ in affected)
    return Counter(run.dag_id for run in locked if run.is_live and 0 < run.unfinished <= of_run[run.id])


def runs_that_may_fail(
    locked: Iterable[RunView], affected: Collection[tuple[int, int]], instances: Mapping[tuple[int, int], Instance]
) -> set[int]:
    """The runs of which an earlier failure may decide now about the run, or about a mapped task.

    Either a task that decides about the run has failed, or one of the affected tasks waits for a task that has.
    """
    of_run = Counter(dag_run_id for dag_run_id, _ in affected)
    has_failed_upstream = {run for (run, _), task in instances.items() if task.failed or task.upstream_failed}
    ending = {
        run.id for run in locked if (run.failed_leaves or run.id in has_failed_upstream) and 0 < run.unfinished <= of_run[run.id]
    }
    mapped = {
        run for (run, _), task in instances.items() if task.elements and task.failed and upstream_of(task).open <= of_run[run]
    }
    return ending | mapped


async def _load_lengths(
    db: Db, affected: Iterable[tuple[int, int]], locked: Mapping[int, RunView], graphs: Mapping[int, Graph]
) -> Mapping[tuple[int, int], int]:
    mapped = {id_: graph for id_, run in locked.items() if (graph := graphs[run.version_id]).mapped}
    over = {(run, mapped[run].node(index).over) for run, index in affected if run in mapped}
    return await tasks.lengths(db, [(run, index) for run, index in over if index is not None])


def already_ended(finish: TaskFinished, state: State) -> str | None:
    """Why a finish is ignored: its attempt has already ended. None: the attempt is open."""
    attempt, task = state.attempt_of(finish)
    if attempt.state in SUBMISSION_OPEN:
        return None
    if task.try_number > attempt.try_number:
        return f"try {attempt.try_number} was superseded by try {task.try_number}"
    return f"{ATTEMPT_ENDED}: {attempt.state}"


def superseded(finish: TaskFinished, state: State) -> str | None:
    """Why the end of an open attempt is ignored: a user or a later decision changed its task. None: it counts."""
    attempt, task = state.attempt_of(finish)
    if task.state in TASK_ACTIVE and task.try_number == attempt.try_number:
        return None
    return f"its task was in state {task.state} by then"


def end_superseded(finish: TaskFinished, state: State) -> Iterator[Effect]:
    """The effects of the end of an open attempt that is ignored. A task that was cleared may have waited for it in its pool."""
    attempt, task = state.attempt_of(finish)
    yield end_submission(finish, attempt, state.now)
    if task.state is TaskState.SCHEDULED:
        yield AdmitAgain()


def end_open(finishes: Iterable[TaskFinished], state: State) -> Iterator[Effect]:
    """The effects of these ends, one per attempt, without those of attempts that have ended already."""
    still_open = [finish for finish in finishes if not already_ended(finish, state)]
    for finish in still_open:
        if superseded(finish, state):
            yield from end_superseded(finish, state)
    yield from end_attempts([finish for finish in still_open if not superseded(finish, state)], state)


def end_attempts(finishes: Sequence[TaskFinished], state: State) -> Iterator[Effect]:
    """The effects of the ends of open attempts, one end per attempt. Their tasks are still active with these attempts."""
    by_run: dict[int, list[TaskFinished]] = defaultdict(list)
    for finish in finishes:
        attempt, _ = state.attempt_of(finish)
        yield end_submission(finish, attempt, state.now)
        by_run[attempt.dag_run_id].append(finish)
    instances: dict[int, dict[int, Instance]] = defaultdict(dict)
    for (dag_run_id, index), instance in state.tasks.items():
        instances[dag_run_id][index] = instance
    ended: dict[str, list[RunEnd]] = defaultdict(list)
    newest_wait = frozenset(dag.graph.dag_id for dag in state.dags if dag.graph.sequential)
    with Faults() as faults:
        for dag_run_id, of_run in by_run.items():
            run = state.runs[dag_run_id]
            with faults.of(run.dag_id):
                step = _advance(run, of_run, instances[dag_run_id], state)
                after = _after(run, step, len(of_run))
                yield from _run_effects(run, after, step, state)
                if step.ended and (state.graphs[run.version_id].sequential or run.dag_id in newest_wait):
                    yield ReconsiderAfter(run.dag_id, run.id)  # the next run may have a newer version, which waits
                yield from _results(of_run, step, state)
                if after.state in RUN_ENDED and run.is_live:
                    ended[run.dag_id].append(end_of(run, after.state))
        yield from schedule_each_after_ends(state.dags, ended, state.now)


def _results(finishes: Sequence[TaskFinished], step: Advance, state: State) -> Iterator[StoreResult]:
    """The results of the tasks that have succeeded. A task that runs again must not find the result of an earlier attempt."""
    succeeded = {move.index for move in step.moves if move.state is TaskState.SUCCESS}
    for finish in finishes:
        attempt = state.submissions[finish.submission_id]
        if attempt.task_index in succeeded and finish.result not in (None, UNSET):
            yield StoreResult(attempt.dag_run_id, attempt.task_index, finish.result)


def _advance(run: RunView, finishes: Sequence[TaskFinished], instances: Mapping[int, Instance], state: State) -> Advance:
    graph = state.graphs[run.version_id]
    ends = [_attempt_end(finish, state.submissions[finish.submission_id]) for finish in finishes]
    lengths = _lengths(run, finishes, instances, state) if graph.mapped else NO_LENGTHS
    return advance(graph, instances, ends, state.now, run=run.run_id, lengths=lengths)


def _attempt_end(finish: TaskFinished, attempt: SubmissionView) -> AttemptEnd:
    """The end of an attempt, with the effect of its kill request."""
    reason = attempt.kill_reason or ""
    if attempt.kill_cause is KillCause.CLEARED:
        return AttemptEnd(attempt.task_index, attempt.try_number, TaskState.NONE, reason)
    # `killed_before` counts since the last start: of these kills each (MAX_REQUEUES + 1)th counts as a failure.
    is_requeued = attempt.killed_before % (MAX_REQUEUES + 1) < MAX_REQUEUES
    if attempt.kill_cause is KillCause.NOT_SUBMITTED and finish.outcome in NOT_RUN and is_requeued:
        return AttemptEnd(attempt.task_index, attempt.try_number, TaskState.SCHEDULED, reason)
    end = attempt_end(finish, attempt.task_index, attempt.try_number)
    if finish.outcome in NOT_RUN and attempt.kill_cause:
        reason = end_reason(finish, attempt)
        return msgspec.structs.replace(end, reason=reason, timed_out=attempt.kill_cause is KillCause.TIMED_OUT)
    return end


def _lengths(
    run: RunView, finishes: Sequence[TaskFinished], instances: Mapping[int, Instance], state: State
) -> Mapping[int, int]:
    """The lengths of the lists that tasks of the run have returned, also with these finishes."""
    lengths = {index: length for (dag_run_id, index), length in state.lengths.items() if dag_run_id == run.id}
    lengths |= {index: instance.elements for index, instance in instances.items() if instance.elements}
    returned = {state.submissions[finish.submission_id].task_index: finish.result for finish in finishes}
    return lengths | {index: len(result) for index, result in returned.items() if isinstance(result, list)}


def _after(run: RunView, step: Advance, ended_attempts: int) -> RunView:
    unfinished, failed_leaves = run.unfinished - step.ended, run.failed_leaves + step.failed_leaves
    return msgspec.structs.replace(
        run,
        state=run_state(unfinished, failed_leaves),
        unfinished=unfinished,
        failed_leaves=failed_leaves,
        active_tasks=run.active_tasks - ended_attempts,
    )


def _run_effects(run: RunView, after: RunView, step: Advance, state: State) -> Iterator[Effect]:
    graph = state.graphs[run.version_id]
    failed = failed_tasks(graph, step, state.failures.get(run.id, ()))
    step = with_failure_reasons(graph, step, failed)
    yield from (insert_task(run, new, graph.node(new.index).task, state.now) for new in step.added)
    yield from (update_task(run, instance, state.now) for instance in step.changed)
    if run.backfill_id is not None:
        yield from _demands_of_next_tries(run, graph, step)
    yield from change_run(run, after, graph, step.moves, state.now, reason_of(after.state, failed))
    if any(move.state is TaskState.NONE for move in step.moves):
        yield Reconsider(run.id)
    if graph.fail_fast and step.failed and after.state not in RUN_ENDED:
        yield Reconsider(run.id, f"{failure_text(failed)}; {FAIL_FAST}")


def _demands_of_next_tries(run: RunView, graph: Graph, step: Advance) -> Iterator[SetTaskDemand]:
    """The pool and the priority of the backfill may have changed during the attempt."""
    again = (task.index for task in step.changed if task.try_number and task.state not in TASK_ENDED | TASK_ACTIVE)
    yield from (SetTaskDemand(run.id, index, demand(run, graph.node(index).task)) for index in again)
