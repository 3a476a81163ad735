"""Live view of runs: a table on a terminal, a line per change elsewhere."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.table import Table

from tidegate.schemas.queries.run_pages import RunRow

SHOWN = 15
COLOURS = {"success": "green", "failed": "red", "running": "yellow", "queued": "cyan"}

Progress = tuple[str, int]
"""The state of a run and how many of its tasks are unfinished."""


def progress_of(runs: Sequence[RunRow]) -> Mapping[tuple[str, str], Progress]:
    """By (dag_id, run_id)."""
    return {(run.dag_id, run.run_id): (run.state, run.unfinished) for run in runs}


def changes(before: Mapping[tuple[str, str], Progress], runs: Sequence[RunRow]) -> list[str]:
    """A line for each changed run, oldest first."""
    changed = [run for run in runs if before.get((run.dag_id, run.run_id)) != (run.state, run.unfinished)]
    return [line(run) for run in reversed(changed)]


def line(run: RunRow) -> str:
    """`daily_delays dataset__… running 3/5 tasks`."""
    return f"{run.dag_id}  {run.run_id}  {run.state}  {run.tasks - run.unfinished}/{run.tasks} tasks"


def table(runs: Sequence[RunRow], now: datetime) -> Table:
    """The newest runs."""
    shown = Table("DAG", "run", "state", "tasks", "took", title="Runs", title_justify="left")
    for run in runs[:SHOWN]:
        state = f"[{COLOURS[run.state]}]{run.state}[/]"
        shown.add_row(run.dag_id, run.run_id, state, f"{run.tasks - run.unfinished}/{run.tasks}", took(run, now))
    return shown


def took(run: RunRow, now: datetime) -> str:
    """The duration of a run until now or its end."""
    if run.start_date is None:
        return ""
    return f"{((run.end_date or now) - run.start_date).total_seconds():.1f} s"


def now() -> datetime:
    return datetime.now(UTC)
