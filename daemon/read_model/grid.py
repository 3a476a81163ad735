"""The runs of a DAG and their tasks, a window of both."""

from collections.abc import Mapping, Sequence

import msgspec

from tidegate.schemas.dag import BaseTask
from tidegate.schemas.queries import grid
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import GridCell, GridRun, Place


class GridWindow(msgspec.Struct, frozen=True):
    """The visible part of a grid: `runs` before or after a place, or the newest; and `tasks` from `first_task` on."""

    runs: int
    tasks: int
    first_task: int = 0
    before: Place | None = None
    after: Place | None = None


class GridLine(msgspec.Struct, frozen=True):
    """A task with its cell of each run; None where the run does not have the task, or has not started."""

    task: BaseTask
    cells: Sequence[GridCell | None]


class Grid(msgspec.Struct, frozen=True):
    """Runs in their order, oldest first. `older` and `newer` say whether there are runs before and after them."""

    runs: Sequence[GridRun]
    lines: Sequence[GridLine]
    older: bool
    newer: bool


async def read_grid(db: Db, dag_id: str, tasks: Sequence[BaseTask], window: GridWindow) -> Grid:
    """The cells of the runs and tasks of the window. `tasks` are all of the DAG, in their order."""
    runs, older, newer = await _runs(db, dag_id, window)
    shown = tasks[window.first_task : window.first_task + window.tasks]
    found = await _cells(db, [run.id for run in runs], [task.task_id for task in shown], window.first_task)
    columns = [found[run.id] for run in runs]
    lines = [GridLine(task, [column.get(task.task_id) for column in columns]) for task in shown]
    return Grid(runs, lines, older, newer)


async def _cells(db: Db, run_ids: Sequence[int], task_ids: Sequence[str], first: int) -> Mapping[int, Mapping[str, GridCell]]:
    """Of a run that lacks one of these where the shown version has it, as one of another version may, all tasks are read."""
    found = await grid.cells(db, run_ids, task_ids, range(first, first + len(task_ids)))
    others = [id_ for id_ in run_ids if len(found[id_]) < len(task_ids)]
    return {**found, **await grid.cells(db, others, task_ids)} if others else found


async def _runs(db: Db, dag_id: str, window: GridWindow) -> tuple[list[GridRun], bool, bool]:
    """The runs, and whether others are older and newer."""
    if window.after is None:
        found = await grid.runs_before(db, dag_id, window.before, window.runs + 1)
        return found[: window.runs][::-1], len(found) > window.runs, window.before is not None
    found = await grid.runs_after(db, dag_id, window.after, window.runs + 1)
    return found[: window.runs], True, len(found) > window.runs
