"""A run: its error first, why it waits, its stages, its tasks and the events that it consumed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.gateway.paths import RunPath
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model import run, run_origin, run_progress
from tidegate.daemon.read_model.lookup import find_run
from tidegate.daemon.read_model.run import RunPage, TaskPage
from tidegate.daemon.read_model.run_origin import RunOrigin
from tidegate.daemon.web.pages.run_forms import RUN
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.explain.gates import RunProgress
from tidegate.schemas.queries import datasets, grid
from tidegate.schemas.queries.datasets import EventRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import Usual
from tidegate.schemas.state import RUN_ENDED, TaskState

SOON = "the next decision of a daemon"

MADE = 50
"""The events of its tasks that the page shows."""


class RunParams(RunPath, frozen=True, kw_only=True):
    """A run; `tasks` is the first task that is shown, of `rows`."""

    tasks: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    rows: Annotated[int, Meta(ge=1, le=1_000)] = 200


class RunScreen(Struct, frozen=True):
    """The page. `progress` is None for a run that has ended; `fault` says why it is not known for another one.

    `waits_for` has the reasons of tasks that wait. `longest_s` scales the bars of the tasks.
    """

    run: RunPage
    origin: RunOrigin
    made: Sequence[EventRow]
    progress: RunProgress | None
    fault: str
    failed: Sequence[TaskPage]
    waits_for: Mapping[str, str]
    usual: Usual | None
    began_at: datetime | None
    longest_s: float


async def read(db: Db, call: Call[RunParams]) -> RunScreen:
    row = await find_run(db, call.params.dag_id, call.params.run_id)
    page = await run.read_page(db, row)
    progress, fault = None, ""
    if row.state not in RUN_ENDED:
        try:
            progress = await run_progress.read_page(db, row, call.settings)
        except DagFaultError as error:
            fault = str(error)
    return RunScreen(
        run=page,
        origin=await run_origin.read_page(db, row),
        made=await datasets.made_by_runs(db, [(row.dag_id, row.run_id)], MADE),
        progress=progress,
        fault=fault,
        failed=[task for task in page.tasks if task.task.state == TaskState.FAILED],
        waits_for=_reasons(progress),
        usual=await grid.usual(db, row.dag_id),
        began_at=row.start_date,
        longest_s=max(((row.end_date or db.now) - row.start_date).total_seconds(), 0.1) if row.start_date else 1.0,
    )


def _reasons(progress: RunProgress | None) -> Mapping[str, str]:
    """By task that waits, its reasons in words."""
    waiting = progress.waiting if progress else ()
    texts = {task.task_id: "; ".join(reason.text for reason in task.blocked_by) or SOON for task in waiting}
    return {task_id: f"waits for {text}" for task_id, text in texts.items()}


SCREEN = Screen(Read(RUN, Right.VIEW, read, RunParams, RunScreen), "run.html")
