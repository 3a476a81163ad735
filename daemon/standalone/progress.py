"""What standalone shows of runs and broken DAG files: a line for each end or fault, on a terminal a table of the newest runs."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime

import msgspec
from rich.table import Table
from rich.text import Text

from tidegate.daemon.terminal import printable
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.dag_pages import ImportErrorRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunEventRow, RunRow, RunTaskRow
from tidegate.schemas.state import RUN_ENDED, TASK_ENDED, RunState
from tidegate.schemas.text import counted, took

LISTED = 200
SHOWN = 15
DEPTH = 2
ASKED = 40
COLOURS = {"success": "green", "failed": "red", "running": "yellow", "queued": "cyan"}

RunKey = tuple[str, str]
"""The DAG and the id of a run."""

End = tuple[str, str, str, datetime | None]
"""The DAG and the run, the task or nothing for the run, and when it ended: a task that was cleared ends again."""


class ShownRun(msgspec.Struct, frozen=True):
    """A run with the days that its events are about. `tasks` is empty for a run whose end was read before."""

    run: RunRow
    tasks: Sequence[RunTaskRow]
    days: tuple[str, ...]

    @property
    def when(self) -> str:
        """`2013-01-01`, the first and the last of several days, else the logical date, or the time at which it was created."""
        if self.days:
            return self.days[0] if len(self.days) == 1 else f"{self.days[0]} to {self.days[-1]}"
        if self.run.logical_date is not None:
            return f"{self.run.logical_date:%Y-%m-%d %H:%M}"
        return f"{self.run.created_at.astimezone():%H:%M:%S}"


class Runs:
    """Reads the newest runs of these DAGs, or of all, and of each what may have changed. Without `tasks` only the runs."""

    def __init__(self, dag_ids: Collection[str] = (), *, tasks: bool = True) -> None:
        self._dag_ids = dag_ids
        self._with_tasks = tasks
        self._days: dict[tuple[str, str], tuple[str, ...]] = {}
        self._ended: set[End] = set()

    async def read(self, db: Db) -> list[ShownRun]:
        """Newest first."""
        chosen: Collection[str | None] = self._dag_ids or [None]
        found = [run for dag_id in chosen for run in await run_pages.list_runs(db, dag_id=dag_id, limit=LISTED)]
        shown = [await self._shown(db, run) for run in sorted(found, key=lambda run: run.created_at, reverse=True)]
        self._days = {(run.dag_id, run.run_id): self._days[run.dag_id, run.run_id] for run in found}
        self._ended &= {(run.dag_id, run.run_id, "", run.end_date) for run in found}
        return shown

    async def _shown(self, db: Db, run: RunRow) -> ShownRun:
        key = (run.dag_id, run.run_id)
        if key not in self._days:
            self._days[key] = tuple(sorted(await days_of(db, *key)))
        end = (*key, "", run.end_date)
        tasks = await run_pages.tasks_of(db, *key) if self._with_tasks and end not in self._ended else ()
        if run.state in RUN_ENDED:
            self._ended.add(end)
        return ShownRun(run, tasks, self._days[key])


async def days_of(db: Db, dag_id: str, run_id: str) -> set[str]:
    """The `day` in the extras of the events that a run consumed, or that the runs consumed which produced these events.

    Runs further upstream than `DEPTH` do not count: DAGs may feed each other for ever.
    Empty for a run that more than `ASKED` runs are upstream of: some of their days would mislead.
    """
    found: set[str] = set()
    asked: set[RunKey] = set()
    level = {(dag_id, run_id)}
    for _ in range(DEPTH + 1):
        if len(asked) + len(level) > ASKED:
            return set()
        asked |= level
        events = [event for key in sorted(level) for event in await run_pages.events_of(db, *key)]
        found |= {str(event.extra["day"]) for event in events if event.extra and "day" in event.extra}
        level = _producers(events) - asked
    return found


def _producers(events: Sequence[RunEventRow]) -> set[RunKey]:
    """The runs that produced the events without a day."""
    without = [event.producer for event in events if "day" not in (event.extra or {})]
    return {(made.dag_id, made.run_id) for made in without if made is not None}


class Lines:
    """A line for each task and run that ended since the last call. What had ended before the first call is known."""

    def __init__(self, known: Sequence[ShownRun], now: Callable[[], datetime]) -> None:
        self._now = now
        self._said = {end for end, _ in self._ends(known)}

    def new(self, runs: Sequence[ShownRun]) -> list[str]:
        """In the order of the runs' creation."""
        ends = list(self._ends(runs[::-1]))
        new = [line for end, line in ends if end not in self._said]
        self._said = {end for end, _ in ends}
        return [printable(line) for line in new]

    def _ends(self, runs: Sequence[ShownRun]) -> Iterator[tuple[End, str]]:
        for shown in runs:
            run = shown.run
            for task in shown.tasks:
                if task.state in TASK_ENDED:
                    yield (run.dag_id, run.run_id, task.label, task.end_date), self._line(shown, task.label, task)
            if run.state in RUN_ENDED:
                yield (run.dag_id, run.run_id, "", run.end_date), self._line(shown, "", run) + _advice(run)

    def _line(self, shown: ShownRun, label: str, ended: RunRow | RunTaskRow) -> str:
        """`2013-01-01  daily_delays    join      success  2.1s`."""
        name = label or f"({counted(shown.run.tasks, 'task', 'tasks')})"
        time = took(ended.start_date, ended.end_date, self._now()) or ""
        return f"{shown.when}  {shown.run.dag_id:14}  {name:10}  {ended.state:7}  {time}".rstrip()


class BrokenFiles:
    """A line for each DAG file that became broken or broken otherwise, and for each that no longer is, since the last call."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def new(self, errors: Sequence[ImportErrorRow]) -> list[str]:
        before, self._said = self._said, {error.path: _told(error) for error in errors}
        mended = [f"{path} is no longer broken" for path in before if path not in self._said]
        return [printable(line) for line in (*mended, *(said for path, said in self._said.items() if before.get(path) != said))]


def _told(error: ImportErrorRow) -> str:
    """As `tidegate dags errors` has it, in one line."""
    place = error.path if error.line is None else f"{error.path}:{error.line}"
    return " ".join(f"{place} is broken: {error.reason}".split())


def _advice(run: RunRow) -> str:
    return f"; `tidegate runs show {run.dag_id} {run.run_id}` says why" if run.state == RunState.FAILED else ""


def _cell(text: str) -> Text:
    """Text from outside, which the terminal and rich must not obey."""
    return Text(printable(text))


def table(runs: Sequence[ShownRun], now: datetime) -> Table:
    """The newest runs, with the tasks at work."""
    shown = Table("Day", "DAG", "state", "tasks", "at work", "took", title="Runs", title_justify="left")
    for each in runs[:SHOWN]:
        run = each.run
        state = Text(run.state, COLOURS[run.state])
        at_work = ", ".join(task.label for task in each.tasks if task.state == "running")
        time = took(run.start_date, run.end_date, now) or ""
        done = f"{run.tasks - run.unfinished}/{run.tasks}"
        shown.add_row(_cell(each.when), _cell(run.dag_id), state, done, _cell(at_work), time)
    return shown
