"""`backfills`: the list, one backfill with its progress, and its dates."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from tidegate.daemon.backfills import Preview, read_backfill
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.lists import Listing
from tidegate.handlers.backfills.dates import next_ticks
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries import backfill_pages, backfills, versions
from tidegate.schemas.queries.backfill_pages import BackfillRow, DateRow, StageRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED, BackfillState
from tidegate.schemas.timetable.text import age, span, took, utc

LAST_DATES = 20
MOST_COUNTED = 10_000
"""The most dates that are counted before they are planned."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a backfill has come. `dagruns` and `tasks` include those to come; `is_exact` is false if there may be more.

    `finished` tasks are the sum of the three after it. `left_s` estimates the time left from the time taken so far.
    """

    dagruns: int
    tasks: int
    finished: int
    succeeded: int
    skipped: int
    failed: int
    is_exact: bool = True
    left_s: float | None = None

    @property
    def done(self) -> float:
        """The finished part, from 0 to 1. Without any task it is done."""
        return self.finished / self.tasks if self.tasks else 1.0


class BackfillPage(msgspec.Struct, frozen=True):
    """A backfill with its progress and its last planned dates. `stages`: the DAGs of a cascade, the first one at depth 0."""

    backfill: BackfillRow
    progress: Progress
    dates: list[DateRow]
    stages: list["Stage"]


class Stage(msgspec.Struct, frozen=True):
    """A DAG of a cascade. `depth` counts the DAGs on the longest way from the first one to it."""

    depth: int
    row: StageRow


async def read_page(db: Db, backfill_id: int) -> BackfillPage:
    """Raises RequestError for an unknown backfill."""
    row = await read_backfill(db, backfill_id, deleted=True)
    dates = await backfill_pages.list_dates(db, backfill_id, None, max(row.dates - LAST_DATES, 0), LAST_DATES)
    return BackfillPage(row, await read_progress(db, row), dates, await _read_stages(db, row) if row.stages else [])


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
    left = 0
    if graph is not None and not row.is_planned and row.state not in BACKFILL_ENDED:
        left = len(next_ticks(await backfills.view(db, row.id), graph, MOST_COUNTED + 1))
    return progress(row, graph, left, db.now)


def progress(row: BackfillRow, graph: Graph | None, left: int, now: datetime) -> Progress:
    """`left` dates are not planned yet, and the runs of others wait to run again: their tasks are as many as the version has."""
    size = 0 if graph is None else len(graph.nodes)
    waiting = row.dates - row.succeeded - row.failed - row.skipped - row.cancelled - row.queued - row.running
    without_tasks = left + row.unstarted + max(waiting, 0)
    found = Progress(
        dagruns=row.dates - row.skipped + left,
        tasks=row.tasks + without_tasks * size,
        finished=row.tasks_succeeded + row.tasks_skipped + row.tasks_failed,
        succeeded=row.tasks_succeeded,
        skipped=row.tasks_skipped,
        failed=row.tasks_failed,
        is_exact=graph is not None and left <= MOST_COUNTED and row.stage == len(row.stages),
    )
    return msgspec.structs.replace(found, left_s=_time_left(row, found, now))


def _time_left(row: BackfillRow, found: Progress, now: datetime) -> float | None:
    """At the mean pace so far; None while nothing has finished, or nothing goes on."""
    if row.run_start_date is None or row.state is not BackfillState.RUNNING or not found.finished:
        return None
    taken: timedelta = now - row.run_start_date
    return taken.total_seconds() * (found.tasks - found.finished) / found.finished


def line(found: Progress, *, with_time: bool = True) -> str:
    """The progress in one line, `with_time` left."""
    more = "" if found.is_exact else "+"
    parts = [
        f"[backfill progress: {found.done:.1%}]",
        f"total dagruns: {found.dagruns}{more}",
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
    runs = f"{row.succeeded + row.failed + row.cancelled}/{row.dates - row.skipped}{'' if row.is_planned else '+'}"
    limit = f"{row.running}/{row.max_active_runs}"
    times = (age(row.submitted_at, now), took(row.run_start_date, row.run_end_date, now))
    return row.id, row.dag_id, row.state, row.start_date, row.end_date, runs, row.failed, limit, row.submitted_by, *times


BACKFILLS = Listing(
    ("ID", "DAG", "STATE", "FROM", "TO", "RUNS ENDED", "FAILED", "RUNNING", "BY", "AGE", "TOOK"),
    _cells,
    "there are no such backfills",
)


def _date_cells(row: DateRow, _now: datetime) -> Sequence[output.Cell]:
    return row.ordinal, row.logical_date, row.state, row.run_id, row.run_state, row.reason


DATES = Listing(("ORDINAL", "LOGICAL DATE", "STATE", "RUN", "RUN STATE", "REASON"), _date_cells, "no dates are planned yet")


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
            ("state", row.state),
            ("because", why(row)),
            ("description", row.description),
            ("dates", _dates(row)),
            ("order", "newest date first" if row.is_reverse else "oldest date first"),
            ("existing runs", f"reprocess {row.reprocess}"),
            ("version", f"{row.version} of {row.relative_fileloc}"),
            ("conf", output.compact(row.dag_params)),
            ("limits", _limits(row)),
            ("outlets", row.outlets),
            ("submitted", f"{utc(row.submitted_at)} by {row.submitted_by}, {age(row.submitted_at, now)} ago"),
            ("started", row.run_start_date),
            ("ended", row.run_end_date),
            ("took", took(row.run_start_date, row.run_end_date, now)),
        )
    )
    output.write()
    output.write(line(page.progress))
    counts = (f"{row.queued} queued", f"{row.running} running", f"{row.succeeded} succeeded", f"{row.failed} failed")
    output.write(f"dates: {', '.join((*counts, f'{row.skipped} skipped', f'{row.cancelled} cancelled'))}")
    if page.stages:
        output.section("cascade", STAGE_TITLES, map(_stage_cells, page.stages), empty="none")
    output.section("last dates", DATES.titles, (_date_cells(date, now) for date in page.dates), empty=DATES.empty)


def why(row: BackfillRow) -> str:
    """Why a backfill starts nothing now, or why it stopped."""
    if row.stop_reason:
        return row.stop_reason
    if row.state in BACKFILL_ENDED:
        return ""
    if row.state is BackfillState.PAUSED:
        return f"`tidegate backfills resume {row.id}` resumes it"
    if row.dag_state:
        return f"its DAG is {row.dag_state}; `tidegate dags why-not {row.dag_id}` says what to do"
    if row.waiting and row.failed:
        waiting = f"{row.waiting} of its runs wait for earlier dates, of which {row.failed} failed"
        return f"{waiting}; `tidegate backfills retry {row.id}` runs these again"
    return f"its limit of {row.max_active_runs} active runs is reached" if row.running >= row.max_active_runs else ""


def _dates(row: BackfillRow) -> str:
    if row.logical_dates is not None:
        return f"a list of {len(row.logical_dates)}"
    return f"{utc(row.start_date)} to {utc(row.end_date)}"


def _limits(row: BackfillRow) -> str:
    limits = [f"{row.max_active_runs} active runs"]
    limits += [f"{row.max_active_tasks} active tasks"] if row.max_active_tasks else []
    limits += [f"{row.share:.0%} of a pool"] if row.share else []
    limits += [f"pool {row.pool}"] if row.pool else []
    limits += [f"stops after {row.max_failed_runs} failed dates"] if row.max_failed_runs else []
    return ", ".join((*limits, f"priority {row.priority}"))


def print_preview(found: Preview) -> None:
    titles = ("LOGICAL DATE", "ACTION", "RUN", "REASON")
    output.table(titles, ((it.logical_date, it.action, it.run_id, it.reason) for it in found.dates), empty="no date")
    if found.more:
        output.say(f"{len(found.dates)} dates are shown, others follow; -n shows more")
