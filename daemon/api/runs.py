"""Runs."""

from contextlib import suppress
from typing import Annotated, Any, Literal

import anyio
import msgspec
from msgspec import Meta

from tidegate.daemon import runs
from tidegate.daemon.api.idempotency import id_of_key
from tidegate.daemon.audit_entry import clearing_text
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Act, Call, Nothing, Params, Read
from tidegate.daemon.gateway.lists import Id, Keyset, ListedOfDag, Time
from tidegate.daemon.gateway.paths import DagPath, RunPath
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.daemon.permissions import Right
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.read_model.clearing import ClearedRun
from tidegate.daemon.read_model.lookup import find_run, list_of_dag
from tidegate.daemon.read_model.run import RunPage, read_open, read_run_page
from tidegate.daemon.read_model.run_origin import RunOrigin, read_run_origin
from tidegate.daemon.read_model.run_progress import read_run_progress
from tidegate.daemon.runs import CancelledRuns
from tidegate.handlers.clear_requested import MAX_CLEARED_RUNS
from tidegate.schemas.error import NotFoundError, RequestError, UnavailableError
from tidegate.schemas.explain.gates import RunProgress
from tidegate.schemas.message import ClearOptions, ClearRequested, RunRequested, options_of
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunAttemptRow, RunRow
from tidegate.schemas.state import RUN_ENDED, RunState, RunType
from tidegate.schemas.text import seconds

BY_AGE = Keyset("runs", ("dag_id", "run_id"), (str, str))

MAX_WAIT_S = 60.0
POLL_S = 0.5


class RunList(ListedOfDag, frozen=True):
    """The runs of all DAGs, or some of them."""

    state: Annotated[RunState | None, Meta(description="Only runs in this state.")] = None
    run_type: Annotated[RunType | None, Meta(description="Only runs of this type.")] = None
    since: Annotated[
        Time | None, Meta(description="Only runs from this logical date on; runs without one count by their earliest start.")
    ] = None
    until: Annotated[Time | None, Meta(description="Only runs up to and including this logical date.")] = None
    backfill_id: Annotated[Id | None, Meta(description="Only runs of this backfill.")] = None
    tag: Annotated[str | None, Meta(description="Only runs of DAGs with this tag.")] = None
    dataset: Annotated[str | None, Meta(description="Only runs that consumed an event of the dataset with this URI.")] = None


class NewRunQuery(DagPath, frozen=True):
    """The DAG whose run is started, and how long the answer waits for its end."""

    wait: Annotated[
        str | None, Meta(description="Answer when the run has ended, or after this time, such as `30s`, at most a minute.")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.wait is not None and not 0 <= seconds(self.wait) <= MAX_WAIT_S:
            raise ValueError(f"a request waits for at most {MAX_WAIT_S:g} seconds")


class NewRun(Params, frozen=True):
    """A requested run. Its id is made from the time, or from the Idempotency-Key, where none is given."""

    run_id: str | None = None
    conf: dict[str, Any] = msgspec.field(default_factory=dict)
    logical_date: Time | None = None
    run_after: Time | None = None


class Mark(Params, frozen=True):
    """The state to set."""

    state: Literal["success", "failed"]


RunIds = Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_CLEARED_RUNS)]


class RunsToCancel(Params, frozen=True):
    """The runs to cancel. A run that has ended stays as it is."""

    run_ids: RunIds


class Clear(ClearOptions, Params, frozen=True):
    """The tasks to clear: of one run, of the runs `run_ids`, or of all from `since` to `until`; without `task_ids` all tasks.

    A task id such as `load[3]` is one instance of a mapped task. `downstream`: also clear the tasks after these.

    `dry_run`: only return what would be cleared. `shown`: the ids of the runs that it returned; others are refused.
    """

    run_id: str | None = None
    run_ids: RunIds | None = None
    since: Time | None = None
    until: Time | None = None
    task_ids: tuple[str, ...] = ()
    downstream: bool = True
    shown: tuple[str, ...] | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if [self.run_id is None, self.run_ids is None, self.since is None and self.until is None].count(False) != 1:
            raise ValueError("give either run_id, or run_ids, or since, until or both")


async def list_runs(db: Db, call: Call[RunList]) -> Page[RunRow]:
    """List runs, newest first."""
    params = call.params
    rows = await list_of_dag(
        db,
        run_pages.list_filtered,
        params.dag_id,
        state=params.state,
        run_type=params.run_type,
        since=params.since,
        until=params.until,
        backfill_id=params.backfill_id,
        tag=params.tag,
        dataset=params.dataset,
        before=await _number(db, BY_AGE.position(params)),
        limit=params.limit + 1,
    )
    return BY_AGE.page(rows, params)


async def _number(db: Db, key: tuple[Any, ...] | None) -> int | None:
    if key is None:
        return None
    number = await run_pages.number_of(db, *key)
    if number is None:
        raise InvalidError(f"cursor: run {key[1]!r} at the end of the earlier page was deleted; leave it out to begin again")
    return number


async def show_run(db: Db, call: Call[RunPath]) -> RunPage:
    """Show a run: the events it consumed, its state changes, its tasks and their attempts."""
    return await read_run_page(db, await find_run(db, call.params.dag_id, call.params.run_id))


async def run_state(db: Db, call: Call[RunPath]) -> RunRow:
    """Show the state of a run, without its tasks and events: what a client reads until it has ended."""
    return await find_run(db, call.params.dag_id, call.params.run_id)


async def open_attempts(db: Db, call: Call[RunPath]) -> list[RunAttemptRow]:
    """List the attempts of a run that have not ended. A killed one is open until its backend has confirmed that."""
    return await read_open(db, await find_run(db, call.params.dag_id, call.params.run_id))


async def run_progress(db: Db, call: Call[RunPath]) -> RunProgress:
    """Show the active tasks of a run, and what each other one awaits."""
    return await read_run_progress(db, await find_run(db, call.params.dag_id, call.params.run_id), call.settings)


async def explain_run(db: Db, call: Call[RunPath]) -> RunOrigin:
    """Explain why a run exists, and how long each stage took."""
    return await read_run_origin(db, await find_run(db, call.params.dag_id, call.params.run_id))


async def trigger_run(call: Call[NewRunQuery], body: NewRun) -> RunRow:
    """Start a run. It stays queued while the DAG is paused or at its limit of active runs."""
    made = id_of_key(call, body) if body.run_id is None else None
    request = RunRequested(
        dag_id=call.params.dag_id,
        run_id=_checked_id(f"api__{made}" if made else body.run_id),
        conf=body.conf,
        logical_date=body.logical_date,
        run_after=body.run_after,
    )
    run = await _known(call, request) if call.facts.is_resumed else None
    run = run or await runs.trigger(call.database, request)
    return await _ended(call.database, run, seconds(call.params.wait)) if call.params.wait else run


async def _known(call: Call[Any], request: RunRequested) -> RunRow | None:
    """The run of an earlier request that was the same."""
    found = await call.database.run(run_pages.list_runs, dag_id=request.dag_id, run_id=request.run_id, limit=1)
    return found[0] if found else None


def _checked_id(given: str | None) -> str:
    try:
        return runs.new_run_id(given)
    except RequestError as error:
        raise InvalidError(f"run_id: {error}") from error


async def _ended(database: Database, run: RunRow, wait_s: float) -> RunRow:
    """The run at its end, or after the time; as it was last where it is deleted meanwhile, or Postgres is away.

    An error would be an answer that asks for a repeat, which is another run.
    """
    with anyio.move_on_after(wait_s), suppress(NotFoundError):
        while run.state not in RUN_ENDED:
            await anyio.sleep(POLL_S)
            with suppress(UnavailableError):
                run = await database.run(find_run, run.dag_id, run.run_id)
    return run


async def cancel_run(call: Call[RunPath], _body: Nothing) -> RunRow:
    """Stop a run: active attempts are killed, waiting tasks skipped, and the run fails."""
    return await runs.cancel(call.database, call.caller.username, call.params.dag_id, call.params.run_id)


async def cancel_runs(call: Call[DagPath], body: RunsToCancel) -> CancelledRuns:
    """Stop runs of a DAG that have not ended, as one is stopped; the first ones if an earlier part of the work takes long.

    A repeat goes on with the others.
    """
    return await runs.cancel_runs(call.database, call.caller.username, call.params.dag_id, body.run_ids)


async def mark_run(call: Call[RunPath], body: Mark) -> RunRow:
    """Set a run to success, with all its tasks, or to failed. Active attempts are killed; outlets are not updated."""
    return await runs.mark(call.database, call.caller.username, call.params.dag_id, call.params.run_id, RunState(body.state))


async def clear_tasks(call: Call[DagPath], body: Clear) -> list[ClearedRun]:
    """Run tasks of one run, or of all runs in a time range, again. Active attempts are killed.

    The answer says which runs consumed what these tasks wrote. A cascade also needs the right to change backfills of all of them.
    """
    request = ClearRequested(
        dag_id=call.params.dag_id,
        run_id=body.run_id,
        run_ids=body.run_ids,
        start=body.since,
        end=body.until,
        task_ids=body.task_ids,
        downstream=body.downstream,
        shown=body.shown,
        **options_of(body),
    )
    return await runs.clear(call.database, call.settings, call.caller, request, dry_run=body.dry_run)


ENDPOINTS = (
    Read("/runs", Right.VIEW, list_runs, RunList, Page[RunRow]),
    Act(
        "POST",
        "/dags/{dag_id}/runs",
        Right.EDIT,
        trigger_run,
        NewRunQuery,
        NewRun,
        RunRow,
        status=201,
        location="/dags/{dag_id}/runs/{run_id}",
        resumes=True,
        does="triggered a run",
    ),
    Read("/dags/{dag_id}/runs/{run_id}", Right.VIEW, show_run, RunPath, RunPage),
    Read("/dags/{dag_id}/runs/{run_id}/state", Right.VIEW, run_state, RunPath, RunRow, is_fresh=True),
    Read("/dags/{dag_id}/runs/{run_id}/open-attempts", Right.VIEW, open_attempts, RunPath, list[RunAttemptRow], is_fresh=True),
    Read("/dags/{dag_id}/runs/{run_id}/progress", Right.VIEW, run_progress, RunPath, RunProgress, is_fresh=True),
    Read("/dags/{dag_id}/runs/{run_id}/origin", Right.VIEW, explain_run, RunPath, RunOrigin),
    Act(
        "POST",
        "/dags/{dag_id}/runs/{run_id}/cancel",
        Right.EDIT,
        cancel_run,
        RunPath,
        Nothing,
        RunRow,
        does="cancelled a run",
    ),
    Act(
        "POST",
        "/dags/{dag_id}/cancel",
        Right.EDIT,
        cancel_runs,
        DagPath,
        RunsToCancel,
        CancelledRuns,
        resumes=True,
        does="cancelled runs",
    ),
    Act(
        "POST",
        "/dags/{dag_id}/runs/{run_id}/mark",
        Right.EDIT,
        mark_run,
        RunPath,
        Mark,
        RunRow,
        resumes=True,
        does="marked a run",
    ),
    Act(
        "POST",
        "/dags/{dag_id}/clear",
        Right.EDIT,
        clear_tasks,
        DagPath,
        Clear,
        list[ClearedRun],
        only_shows=lambda body: body.dry_run,
        does="cleared tasks",
        says=lambda body: clearing_text(only_failed=body.only_failed, newest_version=body.newest_version),
    ),
)
