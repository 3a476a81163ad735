"""`runs show`: a run with its events, its journal, its tasks and their attempts."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.event import extra_text, producer_text
from tidegate.daemon.cli.pages.lists import (
    DEADLINE_TITLES,
    NOTIFICATION_TITLES,
    TASK_TITLES,
    deadline_cells,
    notification_cells,
    task_cells,
)
from tidegate.daemon.read_model.run import RunPage, rewritten_text
from tidegate.daemon.settings import PREFIX
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.queries.notes import Note
from tidegate.schemas.queries.run_pages import RunAttemptRow, RunEventRow, RunRow
from tidegate.schemas.state import RunType, TaskState
from tidegate.schemas.text import age, span, took, utc

EVENT_TITLES = ("DATASET", "OCCURRED", "SOURCE", "ID", "PRODUCER", "EXTRA")
JOURNAL_TITLES = ("SEQ", "STATE", "AT", "REASON")
NOTE_TITLES = ("TASK", "BY", "AT", "NOTE")
ATTEMPT_TITLES = ("TASK", "TRY", "STATE", "BACKEND", "HOST", "STARTED", "TOOK", "EXIT", "REASON")


def print_page(page: RunPage, now: datetime) -> None:
    run = page.run
    output.heading(f"{run.dag_id} {run.run_id}")
    output.facts(
        (
            ("state", run.state),
            ("type", run.run_type),
            ("backfill", run.backfill_id),
            ("version", run.version),
            ("conf", output.compact(page.conf)),
            ("logical date", run.logical_date),
            ("data interval", _interval(run)),
            ("run after", run.run_after),
            ("created", f"{utc(run.created_at)}, {age(run.created_at, now)} ago"),
            ("started", started(run)),
            ("ended", run.end_date),
            ("took", took(run.start_date, run.end_date, now)),
        )
    )
    print_notes(page.notes)
    print_rewritten(page)
    print_events(EVENT_TITLES, map(_event_cells, page.events), page.forgotten, page.events_left)
    output.section("journal", JOURNAL_TITLES, ((m.seq, m.state, m.at, m.reason) for m in page.journal), empty="none")
    print_failures(page.failures)
    output.section("tasks", TASK_TITLES, (task_cells(task.task, now) for task in page.tasks), empty="not started yet")
    if page.tasks_left:
        output.write(f"  and {page.tasks_left} more; `tidegate tasks list {run.dag_id} {run.run_id}` lists all")
    if any(task.task.state == TaskState.SCHEDULED and not task.attempts for task in page.tasks):
        output.write(f"  `tidegate runs show {run.dag_id} {run.run_id} --progress` says what scheduled tasks wait for")
    attempts = [_attempt_cells(task.task.title, attempt, now) for task in page.tasks for attempt in task.attempts]
    output.section("attempts", ATTEMPT_TITLES, attempts, empty="none")
    if page.deadlines:
        output.section("deadlines", DEADLINE_TITLES, map(deadline_cells, reversed(page.deadlines)), empty="none")
    if page.notifications:
        rows = ((row.id, *notification_cells(row, now)) for row in reversed(page.notifications))
        output.section("notifications", ("ID", *NOTIFICATION_TITLES), rows, empty="none")


def print_notes(notes: Sequence[Note]) -> None:
    """The notes of the run and of its tasks; nothing without any."""
    if notes:
        rows = ((note.task, note.written_by, note.written_at, " ".join(note.content.split())) for note in notes)
        output.section("notes", NOTE_TITLES, rows, empty="none")


def print_rewritten(page: RunPage) -> None:
    """The inputs that were written again since the run started; nothing without any."""
    if page.rewritten:
        output.write()
        output.heading("inputs written again")
        for found in page.rewritten:
            output.write(rewritten_text(found))
        output.write(f"  `tidegate runs clear {page.run.dag_id} {page.run.run_id}` runs it again with what they have now")


def print_events(titles: Sequence[str], rows: Iterable[Sequence[output.Cell]], forgotten: int, left: int) -> None:
    """The events that a run consumed, and how many more there were."""
    known = list(rows)
    older = f"{forgotten}{' more' if known else ''} older than the retention of the ledger"
    output.section("consumed events", titles, known, empty=older if forgotten else "none")
    if known and forgotten:
        output.write(f"  {older}")
    if left:
        output.write(f"  at least {left} more stayed pending for the next run, because of {PREFIX}RUN_EVENTS")


def print_failures(failures: Sequence[FailedTask]) -> None:
    """The first failed tasks, each with its reason, the place of its log and the last lines; nothing without any."""
    if not failures:
        return
    output.write()
    output.heading("failures")
    for task in failures:
        output.write(f"{task.title}: {task.reason or 'no reason was given'}")
        if task.log:
            output.write(f"  log on {task.log.host}: {task.log.path}")
            for line in task.log.tail.splitlines():
                output.write(f"    {line}")


def started(run: RunRow) -> str | None:
    """With the delay, unless a backfill ran or made it, also a deleted one: its dates have passed by intention."""
    if run.start_date is None or run.schedule_delay_s is None:
        return None
    delay = "" if run.backfill_id or run.run_type == RunType.BACKFILL else f", {span(run.schedule_delay_s)} after it was due"
    return f"{utc(run.start_date)}{delay}"


def _interval(run: RunRow) -> str | None:
    if run.data_interval_start is None or run.data_interval_end is None:
        return None
    return f"{utc(run.data_interval_start)} to {utc(run.data_interval_end)}"


def _attempt_cells(title: str, attempt: RunAttemptRow, now: datetime) -> tuple[output.Cell, ...]:
    return (
        title,
        attempt.try_number,
        attempt.state,
        attempt.backend,
        attempt.host,
        attempt.started_at,
        took(attempt.started_at, attempt.ended_at, now),
        attempt.exit_code,
        attempt.reason,
    )


def _event_cells(event: RunEventRow) -> tuple[output.Cell, ...]:
    known = (event.uri, event.occurred_at, event.source, event.event_id)
    return *known, producer_text(event.producer), extra_text(event.extra)
