"""A run: its error first, why it waits, its stages, its tasks and the events that it consumed."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct, structs

from tidegate.daemon.api.tasks import TaskList, tasks_page
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.gateway.lists import Limit
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model import run, run_origin, run_progress
from tidegate.daemon.read_model.lookup import find_run
from tidegate.daemon.read_model.run import MOST_FAILURES, RunPage
from tidegate.daemon.read_model.run_origin import RunOrigin
from tidegate.daemon.read_model.version import newer_version
from tidegate.daemon.web.pages.run_forms import RUN
from tidegate.daemon.web.rendering import ran_s
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.explain.gates import RunProgress
from tidegate.schemas.queries import datasets, grid, run_pages
from tidegate.schemas.queries.datasets import EventRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import Usual, VersionRow
from tidegate.schemas.state import RUN_ENDED

SOON = "the next decision of a daemon"

MOST_EXPLAINED = 5_000
"""Of a run with more tasks and mapped instances all would have to be read, to say what each waits for."""

SHOWN_EXTRA = 1 << 20
"""The bytes of extra on the page: those of more are on the page of each event."""

MADE = 50
"""The events of its tasks that the page shows."""


class RunParams(TaskList, frozen=True, kw_only=True):
    """A run, and which of its tasks are shown."""

    limit: Limit = 200


class RunScreen(Struct, frozen=True):
    """A run with a part of its tasks.

    `reason`: why it has its state.
    `progress` is None for a run that has ended, and for one that `is_large`; else `fault` says why it is not known.
    `next_cursor` leads to the tasks after those of the page.
    `waits_for` has the reasons of tasks that wait, by label and state: a removed task may have the same label.
    `longest_s` scales the bars of the tasks.
    `newer` is the version that the DAG has now, where the run has another one.
    `has_more_made`, `are_more_failures`: the page has the first ones.
    """

    run: RunPage
    reason: str
    origin: RunOrigin
    made: Sequence[EventRow]
    has_more_made: bool
    progress: RunProgress | None
    fault: str
    is_large: bool
    next_cursor: str | None
    waits_for: Mapping[tuple[str, str], str]
    usual: Usual | None
    began_at: datetime | None
    longest_s: float
    newer: VersionRow | None
    are_more_failures: bool


async def read(db: Db, call: Call[RunParams]) -> RunScreen:
    row = await find_run(db, call.params.dag_id, call.params.run_id)
    found = await tasks_page(db, row, call.params)
    # The events of the origin are shown. The last failure only tells that there are more.
    page = await run.read_run_page(db, row, found.items, extra_bytes=0, most_failures=MOST_FAILURES + 1)
    failures = page.failures[:MOST_FAILURES]
    made = await datasets.made_by_runs(db, [(row.dag_id, row.run_id)], MADE + 1, extra_bytes=0)
    progress, fault, is_large = None, "", sum(page.states.values()) > MOST_EXPLAINED
    if row.state not in RUN_ENDED and not is_large:
        try:
            progress = await run_progress.read_run_progress(db, row, call.settings)
        except DagFaultError as error:
            fault = str(error)
    return RunScreen(
        run=structs.replace(page, failures=failures),
        reason=await run_pages.state_reason(db, row.dag_id, row.run_id),
        origin=await run_origin.read_run_origin(db, row, SHOWN_EXTRA, failures),
        made=made[:MADE],
        has_more_made=len(made) > MADE,
        progress=progress,
        fault=fault,
        is_large=is_large,
        next_cursor=found.next_cursor,
        waits_for=_reasons(progress),
        usual=await grid.usual(db, row.dag_id),
        began_at=row.start_date,
        longest_s=max(ran_s(row.start_date, row.end_date, db.now), 0.1),
        newer=await newer_version(db, row),
        are_more_failures=len(page.failures) > MOST_FAILURES,
    )


def _reasons(progress: RunProgress | None) -> Mapping[tuple[str, str], str]:
    """By task that waits, its reasons in words."""
    waiting = progress.waiting if progress else ()
    texts = {(task.task_id, task.state): "; ".join(reason.text for reason in task.blocked_by) or SOON for task in waiting}
    return {task: f"waits for {text}" for task, text in texts.items()}


SCREEN = Screen(Read(RUN, Right.VIEW, read, RunParams, RunScreen), "run.html")
