"""`backfills`: the list, one backfill with its progress, and its dates."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.lists import Listing
from tidegate.daemon.read_model.backfill import BackfillPage, Stage, dates_text, share_text
from tidegate.daemon.read_model.backfill_preview import Preview, says
from tidegate.daemon.read_model.backfill_progress import Progress, date_counts, has_all_dates
from tidegate.daemon.read_model.backfill_reasons import why
from tidegate.schemas.backfill import FIRST_IGNORES
from tidegate.schemas.queries.backfill_pages import BackfillRow, DateRow
from tidegate.schemas.text import age, counted, span, took, utc


def line(row: BackfillRow, found: Progress, *, with_time: bool = True) -> str:
    """The progress in one line, `with_time` left."""
    more = "" if found.is_exact else "+"
    parts = [
        f"[backfill progress: {found.done:.1%}]",
        f"total dagruns: {found.dagruns}{more}, {row.ended} ended, {row.failed} failed",
        f"total tasks: {found.tasks}{more}",
        f"finished: {found.finished}",
        f"succeeded: {found.succeeded}",
        f"skipped: {found.skipped}",
        f"failed: {found.failed}",
    ]
    if with_time and found.left_s is not None:
        parts.append(f"time left: {span(found.left_s)}")
    return " | ".join(parts)


def _cells(row: BackfillRow, now: datetime) -> Sequence[output.Cell]:
    runs = f"{row.ended}/{row.dates - row.skipped}{'' if has_all_dates(row) else '+'}"
    limit = f"{row.running}/{row.max_active_runs}"
    times = (age(row.submitted_at, now), took(row.run_start_date, row.run_end_date, now))
    return row.id, row.dag_id, _state(row), row.start_date, row.end_date, runs, row.failed, limit, row.submitted_by, *times


def _state(row: BackfillRow) -> str:
    return f"{row.state}, deleted" if row.deleted else row.state


BACKFILLS = Listing(
    ("ID", "DAG", "STATE", "FROM", "TO", "RUNS ENDED", "FAILED", "RUNNING", "BY", "AGE", "TOOK"),
    _cells,
    "there are no such backfills",
)


def _date_cells(row: DateRow, _now: datetime) -> Sequence[output.Cell]:
    return row.ordinal, row.logical_date, row.state, row.dag_id, row.run_id, row.run_state, row.version, row.reason


DATES = Listing(
    ("ORDINAL", "LOGICAL DATE", "STATE", "DAG", "RUN", "RUN STATE", "VERSION", "REASON"),
    _date_cells,
    "there are no such dates, or none is planned yet",
)


STAGE_TITLES = ("DAG", "DATES", "WAITING", "OPEN", "SUCCEEDED", "FAILED", "SKIPPED", "CANCELLED")


def _stage_cells(stage: Stage) -> Sequence[output.Cell]:
    """The DAG as a branch of the tree of its producers."""
    name = f"{'   ' * (stage.depth - 1)}└─ {stage.row.dag_id}" if stage.depth else stage.row.dag_id
    return name, *msgspec.structs.astuple(stage.row)[1:]


def print_page(page: BackfillPage, now: datetime) -> None:
    row = page.backfill
    output.heading(f"backfill {row.id} of {row.dag_id}")
    output.facts(
        (
            ("state", _state(row)),
            ("because", why(row)),
            ("description", row.description),
            ("dates", dates_text(row)),
            ("order", "newest date first" if row.is_reverse else "oldest date first"),
            ("first date", FIRST_IGNORES if row.ignore_first_depends_on_past else None),
            ("existing runs", f"reprocess {row.reprocess}"),
            ("version", f"{row.version} of {row.relative_fileloc}"),
            ("conf", output.compact(row.dag_params)),
            ("limits", _limits(row)),
            ("holds", ", ".join(map(share_text, page.shares)) or None),
            ("outlets", row.outlets),
            ("submitted", f"{utc(row.submitted_at)} by {row.submitted_by}, {age(row.submitted_at, now)} ago"),
            ("started", row.run_start_date),
            ("ended", row.run_end_date),
            ("took", took(row.run_start_date, row.run_end_date, now)),
        )
    )
    output.write()
    output.write(line(row, page.progress))
    more = "" if page.progress.is_exact else "+"
    output.write(f"dates: {', '.join(f'{dates} {state}' for state, dates in date_counts(row, page.progress).items())}{more}")
    if page.stages:
        output.section("cascade", STAGE_TITLES, map(_stage_cells, page.stages), empty="none")
    output.section("last dates", DATES.titles, (_date_cells(date, now) for date in page.dates), empty=DATES.empty)


def _limits(row: BackfillRow) -> str:
    limits = [counted(row.max_active_runs, "active run", "active runs")]
    limits += [counted(row.max_active_tasks, "active task", "active tasks")] if row.max_active_tasks else []
    limits += [f"{row.share:.0%} of a pool"] if row.share else []
    limits += [f"pool {row.pool}"] if row.pool else []
    limits += [f"stops after {counted(row.max_failed_runs, 'failed date', 'failed dates')}"] if row.max_failed_runs else []
    return ", ".join((*limits, f"priority {row.priority}"))


def print_preview(found: Preview) -> None:
    titles = ("LOGICAL DATE", "ACTION", "RUN", "REASON")
    output.table(
        titles, ((it.logical_date, it.action, it.run_id, it.reason) for it in found.dates), empty="no date or run in this time"
    )
    shown = f" The first {len(found.dates)} are shown, -n shows more." if found.more else ""
    if found.dates:
        output.say(f"{' '.join(says(found))}{shown}")
