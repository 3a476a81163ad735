"""What users do with DAGs, runs and tasks: the calls that the command line, the API and the pages share.

The caller has checked that the user may change the DAG.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import anyio
import msgspec

from tidegate.daemon.conf import checked_conf
from tidegate.daemon.permissions import Caller
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.read_model.clearing import ClearedRun, preview
from tidegate.daemon.read_model.lookup import NEWEST_RUN, find_dag, find_run, find_task
from tidegate.daemon.request import apply_request, check_rights
from tidegate.daemon.settings import Settings
from tidegate.handlers.clear_requested import NOTHING_TO_CLEAR, TOO_MANY_RUNS
from tidegate.handlers.runs.rejections import ALREADY_ENDED
from tidegate.handlers.runs.run_ids import manual_run_id
from tidegate.schemas.effect.audit import OF_DAG, object_name
from tidegate.schemas.error import POSTGRES, NotFoundError, RequestError, UnavailableError
from tidegate.schemas.message import (
    CANCELLED_BY,
    MARKED_BY,
    ClearRequested,
    DagDeleteRequested,
    HistoryPart,
    PauseRequested,
    ReleaseRequested,
    RunEndRequested,
    RunRequested,
    RunsCancelled,
    TaskMarked,
)
from tidegate.schemas.queries import backfills, dag_history
from tidegate.schemas.queries import runs as run_rows
from tidegate.schemas.queries.dag_pages import DagRow
from tidegate.schemas.queries.run_pages import RunRow, RunTaskRow
from tidegate.schemas.state import RUN_ENDED, RunState, TaskState
from tidegate.schemas.text import utc

_RUN_ID = re.compile(r"(?!\.{1,2}$)[\w.~:+-]{1,250}", re.ASCII)
"""Programs resolve `.` and `..` in an address, and would call the one of another object."""

PAUSES_S = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Between two looks for a run: a failover takes some seconds."""

CANCELLED_AT_ONCE = 500
"""The most runs that one transaction cancels."""

PORTION = 1_000
"""The most runs that one transaction deletes."""


async def set_paused(database: Database, dag_id: str, *, paused: bool) -> DagRow:
    """Pause or unpause a DAG. Raises RequestError with the reason of a refusal, as each function here."""
    await database.run(find_dag, dag_id)
    await apply_request(database, PauseRequested(dag_id=dag_id, is_paused=paused))
    return await database.run(find_dag, dag_id)


async def release(database: Database, dag_id: str) -> DagRow:
    """Let a daemon decide about a held DAG again."""
    await database.run(find_dag, dag_id)
    await apply_request(database, ReleaseRequested(dag_id=dag_id))
    return await database.run(find_dag, dag_id)


async def delete(database: Database, dag_id: str, advance: Callable[[HistoryPart], None] | None = None) -> DagRow:
    """Delete a DAG that is in no DAG file; the DAG as it was. A long history goes first, in portions; `advance` is told of each.

    Each is a transaction that checks the DAG anew. After an error the DAG has what is left of its history.
    """
    dag = await database.run(find_dag, dag_id)
    has_begun = False
    try:
        while part := await database.run(dag_history.next_part, dag_id, PORTION, has_begun=has_begun):
            await apply_request(database, DagDeleteRequested(dag_id=dag_id, portion=(part, PORTION)), is_recorded=has_begun)
            has_begun = True
            if advance is not None:
                advance(part)
        await apply_request(database, DagDeleteRequested(dag_id=dag_id), is_recorded=has_begun)
    except RequestError as error:
        if not has_begun:
            raise
        raise RequestError(f"{error}; the first part of its history is deleted, the rest stays", reason=error.reason) from error
    return dag


def new_run_id(given: str | None) -> str:
    """The id of a new run; made from the time unless the user gives one. Raises RequestError for one that no run can have."""
    if given is None:
        return manual_run_id(datetime.now(UTC))
    if not _RUN_ID.fullmatch(given) or given == NEWEST_RUN:
        raise RequestError("a run id is 1 to 250 of A-Z a-z 0-9 _ . ~ : + -, and not `latest`, `.` or `..`", field="run_id")
    return given


async def trigger(database: Database, request: RunRequested) -> RunRow:
    """Create a run, once its conf is checked."""
    run_id = new_run_id(request.run_id)
    await apply_request(database, await _checked(database, request, run_id))
    return await database.run(find_run, request.dag_id, run_id)


async def trigger_once(database: Database, request: RunRequested) -> RunRow:
    """As `trigger`, for a caller who repeats a failed request with another id: it fails only if the run is not there."""
    run_id = new_run_id(request.run_id)
    checked = await _checked(database, request, run_id)
    try:
        await apply_request(database, checked)
    except UnavailableError as error:
        if not error.may_be_done:
            raise
    return await _find_created(database, request.dag_id, run_id)


async def _checked(database: Database, request: RunRequested, run_id: str) -> RunRequested:
    params = await checked_conf(database, request.dag_id, request.conf)
    return msgspec.structs.replace(request, run_id=run_id, params=params)


async def _find_created(database: Database, dag_id: str, run_id: str) -> RunRow:
    """The run that Postgres was asked to store. A commit that waits for a standby shows it later.

    Raises UnavailableError, which says how to repeat the request, if it is not found.
    """
    problem: Exception | None = None
    for pause_s in PAUSES_S:
        await anyio.sleep(pause_s)
        try:
            return await database.run(find_run, dag_id, run_id)
        except (UnavailableError, NotFoundError) as error:
            problem = error
    message = f"run {run_id} may be started, but is not found: {problem}; repeat it with this run id: no run starts twice"
    raise UnavailableError(message, server=POSTGRES) from problem


def why_queued(run: RunRow) -> str:
    """Why a run that was just requested has not started."""
    if run.run_after > run.created_at:
        return f"it is queued: it may start at {utc(run.run_after)}"
    return "it is queued: the DAG is paused, in no DAG file, or at its limit of active runs"


async def cancel(database: Database, user: str, dag_id: str, run_id: str) -> RunRow:
    """Stop a run that has not ended."""
    run = await database.run(find_run, dag_id, run_id)
    if run.state in RUN_ENDED:
        raise RequestError(f"run {run.run_id!r} of DAG {dag_id!r} has ended already: {run.state}")
    return await _end(database, run, RunState.FAILED, f"{CANCELLED_BY}{user}", only_if_active=True)


class CancelledRuns(msgspec.Struct, frozen=True):
    """What became of runs that were to be cancelled. `ended` had ended before, or are unknown."""

    dag_id: str
    cancelled: Sequence[str] = ()
    ended: Sequence[str] = ()


def _ignore(_done: int) -> None:
    pass


async def cancel_runs(
    database: Database, user: str, dag_id: str, run_ids: Sequence[str], advance: Callable[[int], None] = _ignore
) -> CancelledRuns:
    """Cancel runs of a DAG that have not ended, in transactions of some hundred; `advance` is told of each transaction.

    After an error the transactions before it have cancelled their runs. A repeat goes on with the others.
    """
    await database.run(find_dag, dag_id)
    cancelled, left = list[str](), await database.run(run_rows.active_names, dag_id, run_ids)
    while left:
        batch = left[:CANCELLED_AT_ONCE]
        try:
            await apply_request(database, RunsCancelled(dag_id=dag_id, run_ids=tuple(batch), reason=f"{CANCELLED_BY}{user}"))
        except RequestError as error:
            if error.reason != ALREADY_ENDED:
                raise
        still = await database.run(run_rows.active_names, dag_id, batch)
        done = [run_id for run_id in batch if run_id not in set(still)]
        cancelled += done
        advance(len(done))
        left = [*still, *left[CANCELLED_AT_ONCE:]]
    return CancelledRuns(dag_id, cancelled, [run_id for run_id in run_ids if run_id not in set(cancelled)])


async def mark(database: Database, user: str, dag_id: str, run_id: str, state: RunState) -> RunRow:
    """Set a run to success or failed."""
    run = await database.run(find_run, dag_id, run_id)
    return await _end(database, run, state, f"{MARKED_BY}{user}")


async def clear(
    database: Database, settings: Settings, caller: Caller, request: ClearRequested, *, dry_run: bool = False
) -> list[ClearedRun]:
    """Run tasks again; returns them as they were before. `dry_run`: only return them.

    A cascade also needs the right to change backfills of the DAG and of all its consumers. Of the runs of a list, those without
    anything to clear are left out, and too many for one transaction are cleared in several, unless it is a cascade.
    """
    if request.run_ids is None:
        return await _clear(database, settings, caller, request, dry_run=dry_run)
    try:
        return await _clear(database, settings, caller, request, dry_run=dry_run)
    except RequestError as error:
        if error.reason == NOTHING_TO_CLEAR:
            return []
        if error.reason != TOO_MANY_RUNS or len(request.run_ids) == 1 or request.cascade:
            raise
    middle = len(request.run_ids) // 2
    halves = [msgspec.structs.replace(request, run_ids=part) for part in (request.run_ids[:middle], request.run_ids[middle:])]
    return [run for half in halves for run in await clear(database, settings, caller, half, dry_run=dry_run)]


async def _clear(
    database: Database, settings: Settings, caller: Caller, request: ClearRequested, *, dry_run: bool
) -> list[ClearedRun]:
    request = msgspec.structs.replace(request, user=caller.username)
    if request.cascade:
        dags = await database.run(backfills.dags_of_cascade, request.dag_id)
        about = object_name(OF_DAG, dag_id=request.dag_id)
        await check_rights(database, settings, caller, dags, about, "cleared tasks")
        id_ = 0 if dry_run else await database.run(backfills.reserve)
        request = msgspec.structs.replace(request, backfill_id=id_)
    request, cleared = await database.run(preview, request)
    if dry_run:
        return cleared
    await apply_request(database, request)
    return await _with_backfill(database, cleared, request.backfill_id)


async def _with_backfill(database: Database, cleared: list[ClearedRun], id_: int | None) -> list[ClearedRun]:
    """Where no DAG consumes what was cleared, a cascade needs no backfill."""
    if id_ is None or not await database.run(backfills.dag_ids, [id_]):
        return cleared
    return [msgspec.structs.replace(run, backfill_id=id_) for run in cleared]


async def mark_task(database: Database, user: str, dag_id: str, run_id: str, task_id: str, state: TaskState) -> RunTaskRow:
    """Set a task to success or failed."""
    run = await database.run(find_run, dag_id, run_id)
    await database.run(find_task, run, task_id)
    await apply_request(database, TaskMarked(dag_id=dag_id, run_id=run.run_id, task_id=task_id, state=state, user=user))
    return await database.run(find_task, run, task_id)


async def _end(database: Database, run: RunRow, state: RunState, reason: str, *, only_if_active: bool = False) -> RunRow:
    request = RunEndRequested(dag_id=run.dag_id, run_id=run.run_id, state=state, reason=reason, only_if_active=only_if_active)
    await apply_request(database, request)
    return await database.run(find_run, run.dag_id, run.run_id)
