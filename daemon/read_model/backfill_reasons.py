"""Why a backfill starts nothing or stopped, and what each of its dates waits for."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from tidegate.daemon.read_model.terms import admission_blockers, terms_of
from tidegate.daemon.settings import Settings
from tidegate.handlers.backfills.stop import has_dates_to_retry
from tidegate.schemas.backfill import FIRST_IGNORES
from tidegate.schemas.explain.reasons import NoDaemon, Reason
from tidegate.schemas.queries import backfill_pages, leases
from tidegate.schemas.queries.backfill_pages import BackfillRow, DateRow, ScheduledTask, UnendedTask
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED, RUN_ENDED, BackfillState, DateState, RunState, TaskState
from tidegate.schemas.text import counted, utc

A_DAEMON = "waits for the next visit of a daemon"


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
        return _of_dag(row.inactive_dag_id, row.dag_state)
    if _waits_for_failed(row):
        waits = "waits" if row.waiting == 1 else "wait"
        waiting = f"{row.waiting} of its runs {waits} for earlier dates, of which {row.failed} failed"
        return f"{waiting}; `tidegate backfills retry {row.id}` runs these again"
    if is_stuck(row):
        waiting = f"all of its {row.running} running runs wait for earlier runs of the DAG"
        return f"{waiting}; `tidegate backfills dates {row.id}` says for which"
    limit = counted(row.max_active_runs, "active run", "active runs")
    return f"its limit of {limit} is reached" if row.running >= row.max_active_runs else ""


def _of_dag(dag_id: str | None, state: str) -> str:
    return f"DAG {dag_id} is {state}; `tidegate dags why-not {dag_id}` says what to do"


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


async def with_reasons(db: Db, row: BackfillRow, dates: Sequence[DateRow], settings: Settings) -> list[DateRow]:
    """The dates, each unended one with what it waits for. `settings` apply while no daemon is alive."""
    waiting = [date.ordinal for date in dates if date.task is not None and date.task.state is TaskState.SCHEDULED]
    blockers = await _blockers(db, await backfill_pages.scheduled(db, row.id, waiting), settings) if waiting else {}
    queued = {date.dag_id for date in dates if date.dag_id and date.state is DateState.OPEN and date.run_state == RunState.QUEUED}
    inactive = await backfill_pages.inactive_dags(db, queued)
    reasons = [
        date.reason or waits_for(row, date, blockers.get(date.ordinal, ()), inactive.get(date.dag_id or "")) for date in dates
    ]
    return [
        msgspec.structs.replace(date, reason="; ".join(filter(None, (_of_first(row, date), reason))))
        for date, reason in zip(dates, reasons, strict=True)
    ]


def _of_first(row: BackfillRow, date: DateRow) -> str:
    return FIRST_IGNORES if row.ignore_first_depends_on_past and date.ordinal == 1 and date.state is not DateState.SKIPPED else ""


async def _blockers(db: Db, tasks: Sequence[ScheduledTask], settings: Settings) -> Mapping[int, Sequence[Reason]]:
    """By date, what keeps its task from slots, as the admission of its pool decides."""
    daemons = await leases.live(db)
    terms, none_alive = terms_of(daemons, settings), () if daemons else (NoDaemon(),)
    found: dict[int, Sequence[Reason]] = {}
    for pool, group in groupby(sorted(tasks, key=lambda task: (task.pool, task.ordinal)), lambda task: task.pool):
        queue = list(group)
        blocked = await admission_blockers(db, pool, [task.key for task in queue], terms)
        found |= {task.ordinal: (*(blocked.get(task.key) or ()), *none_alive) for task in queue}
    return found


def waits_for(row: BackfillRow, date: DateRow, blockers: Sequence[Reason] = (), inactive: str | None = None) -> str:
    """The wait of a date that has not ended, in words; "" for others.

    `blockers` keep its task from slots. `inactive`: the state of the DAG of a queued run, if it starts nothing.
    """
    match date.state:
        case DateState.RETRY if date.dag_id in row.stages[row.stage :]:
            return f"runs again after the runs of {row.stage_dag_id}"
        case DateState.RETRY if date.run_state and date.run_state not in RUN_ENDED:
            return "runs again after its run has ended"
        case DateState.RETRY:
            return why(row) or A_DAEMON
        case DateState.OPEN if date.run_state in RUN_ENDED:
            return A_DAEMON
        case DateState.OPEN if date.task is not None and not _is_held(row, date, date.task):
            return _of_task(date, date.task, blockers)
        case DateState.OPEN:
            return _of_dag(date.dag_id, inactive) if inactive else why(row) or A_DAEMON
        case _:
            return ""


def _is_held(row: BackfillRow, date: DateRow, task: UnendedTask) -> bool:
    """Whether the task gets no slots before its DAG is released."""
    return row.dag_state == "held" and date.dag_id == row.inactive_dag_id and task.state is TaskState.SCHEDULED


def _of_task(date: DateRow, task: UnendedTask, blockers: Sequence[Reason]) -> str:
    """The reason why a running run has not ended: a task runs, or waits."""
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
