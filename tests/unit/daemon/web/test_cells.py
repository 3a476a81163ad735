"""The cells of the grid."""

from datetime import UTC, datetime

import pytest

from tidegate.daemon.read_model.grid import Grid, GridLine
from tidegate.daemon.web.cells import rows_of
from tidegate.daemon.web.pages.dag import DagParams, window_of
from tidegate.schemas.dag import EmptyTask
from tidegate.schemas.queries.grid import GridCell, GridRun

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
RUN = GridRun(1, 'r"1+', "manual", "success", None, None, NOON)


def row_of(cell: GridCell | None, task_id: str = "join") -> str:
    (row,) = rows_of(Grid([RUN], [GridLine(EmptyTask(task_id=task_id), [cell])], older=False, newer=False), "d<b")
    return str(row)


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        (GridCell("success", 0, 0, 1), "join 2026-11-24 12:00:00Z: success"),
        (GridCell("success", 0, 0, 2), "join 2026-11-24 12:00:00Z: success, try 2"),
        (GridCell("running", 5, 3, 0), "join 2026-11-24 12:00:00Z: running, 3 of 5 instances succeeded"),
    ],
)
def test_a_cell_says_its_task_its_run_and_its_state(cell: GridCell, says: str) -> None:
    assert f'title="{says}"' in row_of(cell)


@pytest.mark.parametrize(
    ("runs", "rows", "shown"), [(30, 100, 100), (30, 500, 500), (200, 500, 100), (200, 50, 50), (1, 500, 500)]
)
def test_a_grid_of_many_runs_shows_fewer_tasks(runs: int, rows: int, shown: int) -> None:
    params = DagParams(dag_id="d", runs=runs, rows=rows)

    assert (window_of(params, "UTC").tasks, window_of(params, "UTC").runs) == (shown, runs)


def test_a_run_without_the_task_has_an_empty_cell() -> None:
    assert row_of(None) == "<td></td>"


def test_every_name_is_escaped() -> None:
    row = row_of(GridCell("<i>", 0, 0, 1), 'a"><script>')

    assert 'href="/dags/d%3Cb/runs/r%221%2B/tasks/a%22%3E%3Cscript%3E"' in row
    assert 'title="a&#34;&gt;&lt;script&gt; 2026-11-24 12:00:00Z: &lt;i&gt;"' in row
