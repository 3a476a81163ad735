"""A run: its error first, why it waits, its stages, its tasks and the events that it consumed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from tidegate.daemon.api.tasks import TaskList, tasks_page
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.gateway.lists import Limit
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.lookup import find_run
from tidegate.daemon.read_model.run import MOST_FAILURES, read_failures, rewritten_text
from tidegate.daemon.read_model.run_origin import RunOrigin, read_run_origin
from tidegate.daemon.read_model.run_progress import progress_of
from tidegate.daemon.read_model.version import newer_version
from tidegate.daemon.settings import Settings
from tidegate.daemon.web.fact import Fact
from tidegate.daemon.web.fields import json_text
from tidegate.daemon.web.pages.run_forms import RUN
from tidegate.daemon.web.rendering import dag_url, ran_s, url
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.explain.gates import RunProgress
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.queries import consumers, datasets, grid, notes, run_pages
from tidegate.schemas.queries.datasets import EventRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.deadlines import DeadlineRow, list_deadlines
from tidegate.schemas.queries.grid import Usual, VersionRow
from tidegate.schemas.queries.notes import Note
from tidegate.schemas.queries.run_pages import ConsumedEventRow, RunRow, RunTaskRow
from tidegate.schemas.state import RUN_ENDED, RunState, TaskState
from tidegate.schemas.text import utc

UNDECIDED = (TaskState.NONE, TaskState.SCHEDULED)
"""The states of tasks that have no reason of their own."""

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
    """A run with a part of its tasks. `states` counts all of them in each state; `tasks_left` more are not on the page.

    `reason` says why it failed, if no task did. `notes` are by the labels of their tasks; that on the run has none.
    `progress` is None for a run that has ended, and for one that `is_large`; else `fault` says why it is not known.
    `forgotten` consumed events are older than the retention; `consumed` are the others.
    `next_cursor` leads to the tasks after those of the page.
    `waits_for` has the reasons of tasks that wait, by label and state: a removed task may have the same label.
    `took_s` of the run scales the bars of its tasks.
    `newer` is the version that the DAG has now, where the run has another one.
    `has_more_made`, `has_more_failures`: the page has the first ones.
    `rewritten` says which inputs were written again since the run started.
    """

    run: RunRow
    conf: Mapping[str, Any]
    notes: Mapping[str | None, Note]
    deadlines: Sequence[DeadlineRow]
    failures: Sequence[FailedTask]
    has_more_failures: bool
    reason: str
    origin: RunOrigin
    consumed: Sequence[ConsumedEventRow]
    forgotten: int
    made: Sequence[EventRow]
    has_more_made: bool
    states: Mapping[str, int]
    progress: RunProgress | None
    fault: str
    is_large: bool
    tasks: Sequence[RunTaskRow]
    tasks_left: int
    next_cursor: str | None
    waits_for: Mapping[tuple[str, str], str]
    usual: Usual | None
    took_s: float
    newer: VersionRow | None
    rewritten: Sequence[str] = ()

    @property
    def facts(self) -> Sequence[Fact]:
        row, start, end = self.run, self.run.data_interval_start, self.run.data_interval_end
        found = (
            Fact("type", row.run_type),
            Fact("version", str(row.version), dag_url(row.dag_id, "versions", row.version)),
            Fact("backfill", str(row.backfill_id or ""), url("backfills", row.backfill_id)),
            Fact("logical date", utc(row.logical_date) if row.logical_date else ""),
            Fact("data interval", f"{utc(start)} to {utc(end)}" if start and end else ""),
            Fact("run after", utc(row.run_after)),
            Fact("conf", json_text(self.conf) if self.conf else ""),
            Fact("condition", self.origin.condition),
        )
        return [fact for fact in found if fact.text]

    @property
    def no_tasks(self) -> str:
        """Why the run has no task."""
        if self.run.start_date:
            return "Its version has no tasks."
        return (
            "It ended before it started: it has no tasks."
            if self.run.end_date
            else "The run has not started: it has no tasks yet."
        )

    @property
    def map_labels(self) -> Mapping[str, str | None]:
        """By label, what names the element of an instance that is on the page."""
        return {task.label: task.map_label for task in self.tasks}

    def next_try_of(self, task: RunTaskRow) -> datetime | None:
        """When a task is tried again; None where `reason_of` says it."""
        is_said = task.state != TaskState.UP_FOR_RETRY or (task.label, task.state) in self.waits_for
        return None if is_said else task.next_try_at

    def reason_of(self, task: RunTaskRow) -> str:
        """Why a task has its state, or what it waits for."""
        if (task.label, task.state) in self.waits_for:
            return self.waits_for[task.label, task.state]
        if task.state in UNDECIDED:
            return "not decided yet" if self.progress else ""
        return task.reason or ""


async def read(db: Db, call: Call[RunParams]) -> RunScreen:
    row = await find_run(db, call.params.dag_id, call.params.run_id)
    key = row.dag_id, row.run_id
    found, states = await tasks_page(db, row, call.params), await run_pages.states_of(db, *key)
    # The last failure, like the last event, only tells that there are more.
    failures = await read_failures(db, row, states, MOST_FAILURES + 1)
    origin = await read_run_origin(db, row, SHOWN_EXTRA, failures)
    consumed = [event for event in origin.events if event.uri is not None]
    made = await datasets.made_by_runs(db, [key], MADE + 1, extra_bytes=0)
    is_large = sum(states.values()) > MOST_EXPLAINED
    progress, fault = (None, "") if is_large else await _progress(db, row, call.settings)
    return RunScreen(
        run=row,
        conf=await run_pages.conf_of(db, *key),
        notes={note.task: note for note in await notes.of_run(db, *key)},
        deadlines=await list_deadlines(db, dag_id=row.dag_id, run_id=row.run_id),
        failures=failures[:MOST_FAILURES],
        has_more_failures=len(failures) > MOST_FAILURES,
        reason="" if failures or row.state != RunState.FAILED else await run_pages.state_reason(db, *key),
        origin=origin,
        consumed=consumed,
        forgotten=(origin.origin.events or 0) - len(consumed),
        made=made[:MADE],
        has_more_made=len(made) > MADE,
        states=states,
        progress=progress,
        fault=fault,
        is_large=is_large,
        tasks=[task.row for task in found.items],
        tasks_left=sum(states.values()) - len(found.items),
        next_cursor=found.next_cursor,
        waits_for=_reasons(progress),
        usual=await grid.usual(db, row.dag_id),
        took_s=max(ran_s(row.start_date, row.end_date, db.now), 0.1),
        newer=await newer_version(db, row),
        rewritten=[rewritten_text(found) for found in await consumers.rewritten_inputs(db, *key)],
    )


async def _progress(db: Db, row: RunRow, settings: Settings) -> tuple[RunProgress | None, str]:
    """The progress of an unfinished run, or why it is not known."""
    try:
        return (None if row.state in RUN_ENDED else await progress_of(db, row, settings)), ""
    except DagFaultError as error:
        return None, str(error)


def _reasons(progress: RunProgress | None) -> Mapping[tuple[str, str], str]:
    """By task that waits, its reasons in words."""
    waiting = progress.waiting if progress else ()
    texts = {(task.task_id, task.state): "; ".join(reason.text for reason in task.blocked_by) or SOON for task in waiting}
    return {task: f"waits for {text}" for task, text in texts.items()}


SCREEN = Screen(Read(RUN, Right.VIEW, read, RunParams, RunScreen), "run.html")
