"""One step of a backfill: count the runs that ended, start queued runs, plan dates, or end what is left after a stop."""

from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta

import msgspec

from tidegate.handlers.backfills.cascade import MAX_SCANNED, new_consumers, plan_consumers, postpone, why_not_again
from tidegate.handlers.backfills.dates import EMPTY_PLAN, Plan, why_active
from tidegate.handlers.backfills.rerun import LockedRun, as_run_of, run_again
from tidegate.handlers.backfills.stop import is_at_failure_limit
from tidegate.handlers.runs.create import create, ends_at_start, promote, queued_run
from tidegate.handlers.runs.run_ids import backfill_run_id
from tidegate.handlers.runs.terminate import fail
from tidegate.schemas.backfill import BackfillView, Consumer, EndedDate, Retry, TaskCounts
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import CloseDate, InsertDate, OpenDate, UpdateBackfill
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import (
    BACKFILL_ENDED,
    BACKFILL_STARTS,
    RUN_ENDED,
    TASK_ACTIVE,
    TASK_FAILED,
    BackfillState,
    DateState,
    RunState,
    RunType,
    TaskState,
)
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import QueuedRun, RunView

MAX_ENDS = 1000
"""The most ended runs that one step counts, and the most that it ends."""

REVISIT_AFTER = timedelta(seconds=10)
"""How soon a stopped backfill is visited again: no message says that one of its runs waits for another run from now on."""

_IN_PROGRESS = TASK_ACTIVE | {TaskState.SCHEDULED, TaskState.UP_FOR_RETRY}

Step = Generator[Effect, None, BackfillView]
"""Yields effects and returns the backfill after them."""


class DueBackfill(msgspec.Struct, frozen=True, kw_only=True):
    """A locked backfill with the rows that its step needs, under the locks of its DAGs.

    `graph` is the version of its new runs; None if it plans and starts none now.

    `is_inactive`: its DAG is paused or stale. `is_gone`: the DAG of the stage was deleted. `is_busy`: a run of the stage has not
    ended, or no cascade has begun. `waits_for_others`: a run is to run again after its end, and is none of
    the backfill. `held` are the held DAGs of its stages; `edges` is each producer with each of its consumers, if the DAG of the
    stage is held. `is_replay`: its dates are runs that exist.

    `ended` are open dates whose runs ended, `queued_runs` the queued runs that start, `plan` has the next dates, `consumers` are
    runs that consumed rewritten datasets, `retries` the dates to retry, by ordinal, and `ending` the runs that a stopped backfill
    ends, with the ordinals of their dates. `runs` are those of `retries` and `ending`, and the existing ones of `plan`; `run_ids`
    are reserved for new runs.

    `leaves_runs`: the runs that start or end have as many tasks as one step may have, and the next step goes on.
    """

    backfill: BackfillView
    graph: Graph | None = None
    is_inactive: bool = False
    is_gone: bool = False
    is_busy: bool = True
    waits_for_others: bool = False
    held: Set[str] = frozenset()
    edges: Sequence[tuple[str, str]] = ()
    is_replay: bool = False
    ended: tuple[EndedDate, ...] = ()
    queued_runs: tuple[QueuedRun, ...] = ()
    plan: Plan = EMPTY_PLAN
    consumers: tuple[Consumer, ...] = ()
    retries: Mapping[int, Retry] = {}
    ending: Mapping[int, int] = {}
    runs: Mapping[int, LockedRun] = {}
    run_ids: tuple[int, ...] = ()
    leaves_runs: bool = False

    @property
    def counted(self) -> BackfillView:
        """The backfill after the ends of its runs."""
        return counted(self.backfill, self.ended)

    @property
    def is_stage_held(self) -> bool:
        return self.backfill.stage > 0 and self.backfill.stage_dag_id in self.held

    @property
    def is_stage_done(self) -> bool:
        """Whether no run of its stage is left, though runs of later stages may be."""
        has_more = self.leaves_runs or len(self.ended) == MAX_ENDS
        return not (self.is_busy or self.plan.dates or self.consumers or self.retries or has_more)


def counted(backfill: BackfillView, ended: tuple[EndedDate, ...]) -> BackfillView:
    """The backfill after the ends of these runs. Enough failures stop it."""
    succeeded = sum(date.state is DateState.SUCCESS for date in ended)
    failed = backfill.failed + len(ended) - succeeded
    after = msgspec.structs.replace(backfill, succeeded=backfill.succeeded + succeeded, failed=failed)
    if not backfill.stop_reason and is_at_failure_limit(backfill, failed):
        return msgspec.structs.replace(
            after, stop_reason=f"{failed} of its dates failed, and it stops at {backfill.max_failed_runs}"
        )
    return after


def may_start(backfill: BackfillView) -> bool:
    """Whether it starts runs, as far as it is concerned."""
    return backfill.state in BACKFILL_STARTS and not backfill.stop_reason


def scans(backfill: BackfillView) -> bool:
    """Whether it looks for the consumers of a stage: also while the DAG of the stage is paused, which may have none."""
    return may_start(backfill) and backfill.stage > 0 and not backfill.is_planned


def unfinished(backfill: BackfillView) -> int:
    """The number of planned dates whose runs have not ended, or are to run again."""
    return backfill.dates - backfill.succeeded - backfill.failed - backfill.skipped - backfill.cancelled


def take_step(due: DueBackfill, now: datetime) -> Iterator[Effect]:
    """The effects of one visit by the clock; the last one says how far the backfill has come."""
    yield from (CloseDate(due.backfill.id, date.ordinal, date.state, date.tasks) for date in due.ended)
    backfill = due.counted
    if backfill.stop_reason:
        backfill = yield from _end_runs(backfill, due, now)
    elif due.is_stage_held:
        backfill = postpone(backfill, due.edges, due.held) if may_start(backfill) else backfill
    elif may_start(backfill) and not due.is_inactive:
        backfill = yield from _start_runs(backfill, due, now)
    elif scans(backfill):
        yield from plan_consumers(backfill, due.consumers)
        backfill = _scanned(backfill, due)
    after = finished(backfill, due, now)
    is_moved = (after.stage, after.stages) != (due.backfill.stage, due.backfill.stages)
    has_scanned = scans(due.counted) or scans(after)  # The runs of the stage start after its last consumer was found.
    has_more = is_moved or (has_scanned and not due.is_stage_held) or _has_more(backfill, due)
    is_unnoticed = bool(after.stop_reason) or due.waits_for_others or _waits_for_others(due)
    yield UpdateBackfill(after, _next_visit(after, now, has_more=has_more, is_unnoticed=is_unnoticed))


def _waits_for_others(due: DueBackfill) -> bool:
    """Whether a consumer that it found is running: before the first date of its stage, it is none of the backfill."""
    return any(consumer.is_outdated for consumer in due.consumers)


def _next_visit(after: BackfillView, now: datetime, *, has_more: bool, is_unnoticed: bool) -> datetime | None:
    """None: at the end of a run. `is_unnoticed`: no message says that it may go on."""
    if after.state in BACKFILL_ENDED:
        return None
    if has_more:
        return now
    return now + REVISIT_AFTER if is_unnoticed else None


def ends_with_stop(locked: LockedRun, *, kills: bool) -> bool:
    """Whether a run is ended when its backfill stops. A run with tasks in progress goes on unless the backfill kills."""
    return kills or locked.run.state is not RunState.RUNNING or not any(it.state in _IN_PROGRESS for it in locked.tasks.values())


def _end_runs(backfill: BackfillView, due: DueBackfill, now: datetime) -> Step:
    """End the runs without tasks in progress, or all if the backfill kills. Failed dates stay failed."""
    for id_, ordinal in due.ending.items():
        locked = due.runs[id_]
        yield from fail(locked.run, locked.graph, tuple(locked.tasks.values()), now, reason=backfill.stop_reason)
        yield CloseDate(backfill.id, ordinal, DateState.CANCELLED, _task_counts(locked), reason=backfill.stop_reason)
    retries = {ordinal: retry for ordinal, retry in due.retries.items() if ordinal not in due.ending.values()}
    yield from (_given_up(backfill, ordinal, retry) for ordinal, retry in retries.items())
    failed = sum(retry.has_failed for retry in retries.values())
    cancelled = len(due.ending) + len(retries) - failed
    return msgspec.structs.replace(backfill, cancelled=backfill.cancelled + cancelled, failed=backfill.failed + failed)


def _task_counts(locked: LockedRun) -> TaskCounts:
    states = [task.state for task in locked.tasks.values() if task.state is not TaskState.REMOVED]
    failed = sum(state in TASK_FAILED for state in states)
    return TaskCounts(len(states), states.count(TaskState.SUCCESS), states.count(TaskState.SKIPPED), failed)


def _given_up(backfill: BackfillView, ordinal: int, retry: Retry) -> CloseDate:
    """A date that was to be retried becomes what it was before. A consumer that did not run again has no tasks here."""
    if retry.has_failed:
        return CloseDate(backfill.id, ordinal, DateState.FAILED, retry.tasks)
    tasks = TaskCounts() if retry.is_whole else retry.tasks
    return CloseDate(backfill.id, ordinal, DateState.CANCELLED, tasks, reason=backfill.stop_reason)


def _start_runs(backfill: BackfillView, due: DueBackfill, now: datetime) -> Step:
    for queued in due.queued_runs:
        yield from promote(queued.run, queued.graph, now)
    skipped = 0
    for ordinal, retry in due.retries.items():
        skipped += yield from _retry(backfill, due, ordinal, retry, now)
    if due.graph is not None:
        yield from _plan_dates(backfill, due.graph, due, now)
    yield from plan_consumers(backfill, due.consumers)
    after = _planned(backfill, due)
    started = due.queued_runs or any(date.reason is None for date in due.plan.dates)
    start_date = backfill.run_start_date or (now if started else None)
    return msgspec.structs.replace(after, skipped=after.skipped + skipped, run_start_date=start_date)


def _retry(backfill: BackfillView, due: DueBackfill, ordinal: int, retry: Retry, now: datetime) -> Generator[Effect, None, int]:
    """Returns 1 for a date that is skipped, else 0.

    A date is skipped if its run was deleted, or if the run is active for a user or another backfill.
    """
    found = due.runs.get(retry.dag_run_id)
    if found is None:
        yield CloseDate(backfill.id, ordinal, DateState.SKIPPED, reason="its run was deleted")
        return 1
    if found.run.state not in RUN_ENDED and found.run.backfill_id != backfill.id:
        yield CloseDate(backfill.id, ordinal, DateState.SKIPPED, reason=why_active(found.run.run_id, found.run.state))
        return 1
    if due.graph is not None and _is_to_run(found.run, retry):
        yield from run_again(backfill, due.graph, found, now, only_failed=retry.has_failed)
    yield OpenDate(backfill.id, ordinal, now)
    return 0


def _is_to_run(run: RunView, retry: Retry) -> bool:
    """A run that was cleared or marked since its date failed is left as it is."""
    return run.state is RunState.FAILED or (retry.is_whole and run.state in RUN_ENDED)


def _plan_dates(backfill: BackfillView, graph: Graph, due: DueBackfill, now: datetime) -> Iterator[Effect]:
    ids = iter(due.run_ids)
    for ordinal, tick, existing, reason in due.plan.dates:
        at = tick.logical_date
        if reason is not None:
            yield InsertDate(backfill.id, ordinal, at, DateState.SKIPPED, existing and existing.id, reason)
        elif existing is not None:
            yield from run_again(backfill, graph, due.runs[existing.id], now, only_failed=False)
            yield InsertDate(backfill.id, ordinal, at, DateState.OPEN, existing.id, again_since=now)
        else:
            run = new_run(backfill, graph, next(ids), tick)
            yield from create(run, backfill.dag_params, graph, now, started=True)
            yield InsertDate(backfill.id, ordinal, at, DateState.OPEN, run.id)


def new_run(backfill: BackfillView, graph: Graph, id_: int, tick: Tick) -> RunView:
    """The queued run of a date."""
    run_id = backfill_run_id(tick.logical_date)
    run = queued_run(id_, graph, run_id, RunType.BACKFILL, tick.run_after, tick=tick)
    return as_run_of(run, backfill)


def _planned(backfill: BackfillView, due: DueBackfill) -> BackfillView:
    """The backfill after its dates were planned."""
    if backfill.stage or due.is_replay:
        return _scanned(backfill, due)
    dates = due.plan.dates
    return msgspec.structs.replace(
        backfill,
        state=BackfillState.RUNNING,
        dates=backfill.dates + len(dates),
        skipped=backfill.skipped + sum(date.reason is not None for date in dates),
        planned_until=dates[-1].tick.logical_date if dates else backfill.planned_until,
        is_planned=backfill.is_planned or not due.plan.more,
    )


def _scanned(backfill: BackfillView, due: DueBackfill) -> BackfillView:
    """The backfill after some runs were found."""
    found = new_consumers(due.consumers)
    skipped = sum(why_not_again(backfill, consumer) is not None for consumer in found)
    known = msgspec.structs.replace(backfill, dates=backfill.dates + len(found), skipped=backfill.skipped + skipped)
    if not backfill.stage:
        until = found[-1].order_at if found else backfill.planned_until
        has_all = backfill.is_planned or len(found) < MAX_SCANNED
        return msgspec.structs.replace(known, state=BackfillState.RUNNING, planned_until=until, is_planned=has_all)
    scanned = backfill.scan_until if due.is_gone else min(backfill.scanned + MAX_SCANNED, backfill.scan_until)
    version_id = due.graph.version_id if due.graph is not None else None
    is_planned = scanned >= backfill.scan_until
    return msgspec.structs.replace(known, scanned=scanned, is_planned=is_planned, stage_version_id=version_id)


def finished(backfill: BackfillView, due: DueBackfill, now: datetime) -> BackfillView:
    """The backfill with its next stage or its end state, if nothing is left to plan or to wait for. Without dates it ends."""
    is_done = backfill.is_planned or bool(backfill.stop_reason)
    has_next = backfill.dates > 0 and not backfill.stop_reason and backfill.stage < len(backfill.stages)
    if not is_done or due.consumers or (unfinished(backfill) and not (has_next and due.is_stage_done)):
        return backfill
    if has_next:
        following = {"stage": backfill.stage + 1, "stage_version_id": None, "scanned": 0, "scan_until": backfill.dates}
        return msgspec.structs.replace(backfill, is_planned=False, **following)
    return msgspec.structs.replace(backfill, state=_end_state(backfill), run_end_date=now)


def _end_state(backfill: BackfillView) -> BackfillState:
    if backfill.was_cancelled:
        return BackfillState.CANCELLED
    return BackfillState.FAILED if backfill.failed or backfill.stop_reason else BackfillState.SUCCESS


def _has_more(backfill: BackfillView, due: DueBackfill) -> bool:
    """Whether the next step has work without waiting for the end of a run."""
    if MAX_ENDS in (len(due.ended), len(due.ending)) or due.leaves_runs:
        return True
    if due.retries or due.plan.has_free_slots or due.consumers:
        return True
    new = [date for date in due.plan.dates if date.reason is None]
    if any(date.existing for date in new):
        return True  # Queued now, they start at the next step.
    if due.graph is not None and any(ends_at_start(new_run(backfill, due.graph, 0, date.tick), due.graph) for date in new):
        return True
    return any(ends_at_start(queued.run, queued.graph) for queued in due.queued_runs)
