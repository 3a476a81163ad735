"""A backfill as a page: its progress, its last dates and the DAGs of its cascade."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

import msgspec

from tidegate.handlers.admission.load import preview_admission
from tidegate.handlers.backfills.dates import is_replay, next_ticks
from tidegate.handlers.backfills.rejections import no_such_backfill
from tidegate.handlers.backfills.stop import has_dates_to_retry
from tidegate.handlers.explain.queue import queue_blockers
from tidegate.schemas.error import DagFaultError, NotFoundError
from tidegate.schemas.explain.reasons import NoDaemon, Reason
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries import backfill_pages, backfills, leases, versions
from tidegate.schemas.queries.backfill_pages import (
    BackfillRow,
    DateRow,
    PoolShare,
    ScheduledTask,
    StageRow,
    UnendedTask,
    list_backfills,
)
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Terms
from tidegate.schemas.queries.pools import UNLIMITED
from tidegate.schemas.state import BACKFILL_ENDED, RUN_ENDED, BackfillState, DateState, TaskState
from tidegate.schemas.timetable.text import counted, utc
from tidegate.schemas.view import TaskKey

MAX_ID = 2**63 - 1

LAST_DATES = 20
MOST_COUNTED = 10_000
"""The most dates that are counted before they are planned, and the most tasks that are counted in the queue of a pool."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a backfill has come. `dagruns` and `tasks` include those to come; `is_exact` is false if there may be more.

    `finished` tasks are the sum of the three after it. The runs of `again` planned dates are to run again, and `unplanned` dates
    are not planned: a backfill that stopped keeps them for a retry. `left_s` estimates the time left from the time taken so far.
    """

    dagruns: int
    tasks: int
    finished: int
    succeeded: int
    skipped: int
    failed: int
    again: int = 0
    unplanned: int = 0
    is_exact: bool = True
    left_s: float | None = None

    @property
    def done(self) -> float:
        """The finished part, from 0 to 1. Without any task it is done, unless more may follow."""
        return self.finished / self.tasks if self.tasks else float(self.is_exact)


class BackfillPage(msgspec.Struct, frozen=True):
    """A backfill with its progress and its last planned dates. `stages`: the DAGs of a cascade, the first one at depth 0.

    `shares` say in which pools it may be in the way of others.
    """

    backfill: BackfillRow
    progress: Progress
    dates: list[DateRow]
    stages: list["Stage"]
    shares: Sequence[PoolShare] = ()


class Stage(msgspec.Struct, frozen=True):
    """A DAG of a cascade. `depth` counts the DAGs on the longest way from the first one to it."""

    depth: int
    row: StageRow


async def read_page(db: Db, backfill_id: int) -> BackfillPage:
    """Raises NotFoundError for an unknown backfill."""
    row = await read_backfill(db, backfill_id, deleted=True)
    dates = await backfill_pages.list_dates(db, backfill_id, None, max(row.dates - LAST_DATES, 0), LAST_DATES)
    return BackfillPage(
        row,
        await read_progress(db, row),
        await with_reasons(db, row, dates),
        await _read_stages(db, row) if row.stages else [],
        await backfill_pages.list_shares(db, row.id, MOST_COUNTED),
    )


def share_text(share: PoolShare) -> str:
    """`2 of 128 slots of default_pool; no other task waits there`."""
    total = None if share.slots == UNLIMITED else share.slots
    slots = counted(share.held, "slot", "slots") if total is None else f"{share.held} of {counted(total, 'slot', 'slots')}"
    waiting = "1 task of another run waits" if share.others == 1 else f"{share.others} tasks of other runs wait"
    return f"{slots} of {share.pool}; {waiting if share.others else 'no other task waits'} there"


async def _read_stages(db: Db, row: BackfillRow) -> list[Stage]:
    rows = await backfill_pages.list_stages(db, row.id)
    depths = {row.dag_id: 0}
    edges = await backfills.edges(db, row.dag_id)
    for dag_id in row.stages:
        depths[dag_id] = 1 + max(
            (depths[producer] for producer, consumer in edges if consumer == dag_id and producer in depths), default=0
        )
    return [Stage(depth, rows.get(dag_id) or StageRow(dag_id=dag_id)) for dag_id, depth in depths.items()]


async def read_progress(db: Db, row: BackfillRow) -> Progress:
    """The dates to come are counted from the timetable, up to a bound; not at all if the version cannot be read."""
    try:
        graph: Graph | None = (await versions.graphs(db, {row.version_id}))[row.version_id]
    except DagFaultError:
        graph = None
    left = 0 if graph is None or row.is_planned else len(next_ticks(row, graph, MOST_COUNTED + 1))
    return progress(row, graph, left, db.now)


def progress(row: BackfillRow, graph: Graph | None, left: int, now: datetime) -> Progress:
    """`left` dates are not planned yet, and the runs of others wait to run again: their tasks are as many as the version has."""
    size = 0 if graph is None else len(graph.nodes)
    again = max(row.dates - row.succeeded - row.failed - row.skipped - row.cancelled - row.queued - row.running, 0)
    without_tasks = left + row.unstarted + again
    found = Progress(
        dagruns=row.dates - row.skipped + left,
        tasks=row.tasks + without_tasks * size,
        finished=row.tasks_succeeded + row.tasks_skipped + row.tasks_failed,
        succeeded=row.tasks_succeeded,
        skipped=row.tasks_skipped,
        failed=row.tasks_failed,
        again=again,
        unplanned=left,
        is_exact=has_all_dates(row) or (graph is not None and _is_counted(row, graph, left)),
    )
    return msgspec.structs.replace(found, left_s=_time_left(row, found, now))


def _is_counted(row: BackfillRow, graph: Graph, left: int) -> bool:
    """Whether `left` are all dates that are not planned: the runs of a replay and of consumers are found, not counted."""
    return left <= MOST_COUNTED and not row.stages and not is_replay(row, graph)


def has_all_dates(row: BackfillRow) -> bool:
    """Whether no more dates will be planned. A backfill that stopped keeps the dates that it did not plan: a retry does."""
    return row.is_planned and row.stage == len(row.stages)


def date_counts(row: BackfillRow, found: Progress) -> Mapping[str, int]:
    """What became of the dates: each one is in one of these numbers."""
    has_stopped = bool(row.stop_reason) or row.state in BACKFILL_ENDED
    return {
        "queued": row.queued,
        "running": row.running,
        "succeeded": row.succeeded,
        "failed": row.failed,
        "skipped": row.skipped,
        "cancelled": row.cancelled,
        "to run again": found.again,
        "not started" if has_stopped else "to come": found.unplanned,
    }


def _time_left(row: BackfillRow, found: Progress, now: datetime) -> float | None:
    """At the mean pace so far; None while nothing has finished, or nothing goes on."""
    is_at_work = row.state is BackfillState.RUNNING and not (row.stop_reason or row.dag_state or is_stuck(row))
    if row.run_start_date is None or not is_at_work or not found.finished:
        return None
    taken: timedelta = now - row.run_start_date
    return taken.total_seconds() * (found.tasks - found.finished) / found.finished


async def read_backfill(db: Db, id_: int, *, deleted: bool = False) -> BackfillRow:
    """Raises NotFoundError for an unknown backfill, and for a deleted one unless `deleted` is given."""
    rows = await list_backfills(db, backfill_id=id_, deleted=deleted) if 0 < id_ <= MAX_ID else []
    if not rows:
        rejected = no_such_backfill(id_)
        raise NotFoundError(rejected.message, reason=rejected.reason)
    return rows[0]


def why(row: BackfillRow) -> str:
    """Why a backfill starts nothing now, or why it stopped."""
    if row.state in BACKFILL_ENDED:
        return _why_ended(row)
    if row.was_cancelled:
        return f"cancelled{_by(row)}"
    if row.stop_reason:
        return row.stop_reason
    if row.state is BackfillState.PAUSED:
        return f"paused{_by(row)}; `tidegate backfills resume {row.id}` resumes it"
    if row.dag_state:
        return f"DAG {row.inactive_dag_id} is {row.dag_state}; `tidegate dags why-not {row.inactive_dag_id}` says what to do"
    if _waits_for_failed(row):
        waits = "waits" if row.waiting == 1 else "wait"
        waiting = f"{row.waiting} of its runs {waits} for earlier dates, of which {row.failed} failed"
        return f"{waiting}; `tidegate backfills retry {row.id}` runs these again"
    if is_stuck(row):
        waiting = f"all of its {row.running} running runs wait for earlier runs of the DAG"
        return f"{waiting}; `tidegate backfills dates {row.id}` says for which"
    limit = counted(row.max_active_runs, "active run", "active runs")
    return f"its limit of {limit} is reached" if row.running >= row.max_active_runs else ""


def why_failing(row: BackfillRow) -> str:
    """Why a backfill with failed dates needs attention: what keeps it, or that they run again only by a retry."""
    reason = why(row)
    failed = f"{row.failed} of its {row.dates - row.skipped} planned dates failed"
    if row.state not in BACKFILL_ENDED and row.was_cancelled:
        return f"{failed}; {reason}"
    if row.state in BACKFILL_ENDED or row.stop_reason or _waits_for_failed(row):
        return reason
    retry = f"{failed}; `tidegate backfills retry {row.id}` runs these again"
    return f"{retry}; {reason}" if reason else retry


def _waits_for_failed(row: BackfillRow) -> bool:
    return row.waiting > 0 and row.failed > 0


def is_stuck(row: BackfillRow) -> bool:
    """Whether nothing of it is at work: its running runs wait for runs before them, of which it may have none."""
    return row.running > 0 and row.waiting == row.running


def _why_ended(row: BackfillRow) -> str:
    """Why it did not succeed, and how it goes on; "" for one that did."""
    failed = f"{row.failed} of its dates failed (`tidegate backfills dates {row.id} --state failed`)" if row.failed else ""
    reason = f"cancelled{_by(row)}" if row.was_cancelled else row.stop_reason or failed
    can_go_on = has_dates_to_retry(row) and not row.deleted
    return f"{reason}; `tidegate backfills retry {row.id}` lets it go on{_with_version(row)}" if can_go_on else reason


def _with_version(row: BackfillRow) -> str:
    """The version of its runs, if its DAG has a newer one."""
    newest = f"the newest is version {row.newest_version}, which --newest-version runs"
    return f" with version {row.version}; {newest}" if row.version < row.newest_version else ""


def _by(row: BackfillRow) -> str:
    return f" by {row.stopped_by} at {utc(row.stopped_at)}" if row.stopped_by and row.stopped_at else ""


A_DAEMON = "waits for the next visit of a daemon"


async def with_reasons(db: Db, row: BackfillRow, dates: Sequence[DateRow]) -> list[DateRow]:
    """The dates, each unended one with what it waits for."""
    waiting = [date.ordinal for date in dates if date.task is not None and date.task.state is TaskState.SCHEDULED]
    blockers = await _blockers(db, await backfill_pages.scheduled(db, row.id, waiting)) if waiting else {}
    reasons = [date.reason or waits_for(row, date, blockers.get(date.ordinal, ())) for date in dates]
    return [msgspec.structs.replace(date, reason=reason) for date, reason in zip(dates, reasons, strict=True)]


async def _blockers(db: Db, tasks: Sequence[ScheduledTask]) -> Mapping[int, Sequence[Reason]]:
    """By date, what keeps its task from slots, as the admission of its pool decides with the settings of a daemon."""
    daemons = await leases.live(db)
    terms, none_alive = (daemons[0].terms, ()) if daemons else (Terms(), (NoDaemon(),))
    found: dict[int, Sequence[Reason]] = {}
    for pool, group in groupby(sorted(tasks, key=lambda task: (task.pool, task.ordinal)), lambda task: task.pool):
        queue = list(group)
        ready = TasksReady(pool=pool, limit=len(queue), parallelism=terms.parallelism, fair_after_s=terms.fair_after_s)
        blocked = await _blocked(db, ready, queue)
        found |= {task.ordinal: (*(blocked.get(task.key) or ()), *none_alive) for task in queue}
    return found


async def _blocked(db: Db, ready: TasksReady, queue: Sequence[ScheduledTask]) -> Mapping[TaskKey, Sequence[Reason] | None]:
    """Nothing is decided about a DAG whose version cannot be read: it is held."""
    try:
        return queue_blockers(await preview_admission(db, ready, [task.key for task in queue]))
    except DagFaultError:
        return {}


def waits_for(row: BackfillRow, date: DateRow, blockers: Sequence[Reason] = ()) -> str:
    """What a date waits for that has not ended; "" for others. `blockers` keep its task from slots."""
    match date.state:
        case DateState.RETRY if date.dag_id in row.stages[row.stage :]:
            return f"runs again after the runs of {row.stage_dag_id}"
        case DateState.RETRY if date.run_state and date.run_state not in RUN_ENDED:
            return "runs again after its run has ended"
        case DateState.RETRY:
            return why(row) or A_DAEMON
        case DateState.OPEN if date.task is not None and not _is_held(row, date, date.task):
            return _of_task(date, date.task, blockers)
        case DateState.OPEN:
            return why(row) or A_DAEMON
        case _:
            return ""


def _is_held(row: BackfillRow, date: DateRow, task: UnendedTask) -> bool:
    """Whether the task gets no slots before its DAG is released."""
    return row.dag_state == "held" and date.dag_id == row.inactive_dag_id and task.state is TaskState.SCHEDULED


def _of_task(date: DateRow, task: UnendedTask, blockers: Sequence[Reason]) -> str:
    """What a running run waits for: the end of a task, or what this task waits for."""
    match task.state:
        case TaskState.RUNNING:
            return f"task {task.task_id} runs"
        case TaskState.SCHEDULED:
            reasons = "; ".join(reason.text for reason in blockers) or f"its turn in pool {task.pool!r}"
            return f"task {task.task_id} waits for {reasons}{_ask(date, task)}"
        case TaskState.NONE if task.waits_for_past:
            return f"task {task.task_id} waits for the previous run{_ask(date, task)}"
        case TaskState.NONE:
            return f"task {task.task_id} waits for earlier tasks"
        case TaskState.UP_FOR_RETRY:
            return f"task {task.task_id} waits for its next try{_ask(date, task)}"
        case _:
            return f"task {task.task_id} is {task.state}"


def _ask(date: DateRow, task: UnendedTask) -> str:
    return f"; `tidegate tasks why-not {date.dag_id} {date.run_id} {task.task_id}` says more"
