"""The cells of the grid as HTML. A page has thousands, for which a template takes a second; each part is escaped here."""

from collections.abc import Sequence
from functools import cache
from urllib.parse import quote

from markupsafe import Markup, escape

from tidegate.daemon.read_model.grid import Grid, GridLine
from tidegate.daemon.web.rendering import run_url, sign
from tidegate.schemas.queries.grid import GridCell, GridRun
from tidegate.schemas.text import utc

EMPTY = "<td></td>"


def rows_of(grid: Grid, dag_id: str) -> list[Markup]:
    """The cells of each line of the grid, in its order."""
    columns = [_Column(dag_id, run) for run in grid.runs]
    return [_cells(line, columns) for line in grid.lines]


class _Column:
    """A run: the beginning of its addresses, and its time."""

    def __init__(self, dag_id: str, run: GridRun) -> None:
        self.address = escape(run_url(dag_id, run.run_id, "tasks"))
        self.time = utc(run.order_at)


def _cells(line: GridLine, columns: Sequence[_Column]) -> Markup:
    task_id = line.task.task_id
    part, name = escape(quote(task_id, safe="")), escape(task_id)
    cells = (_cell(cell, column, part, name) for cell, column in zip(line.cells, columns, strict=True))
    return Markup("".join(cells))  # noqa: S704 - each part is escaped


def _cell(cell: GridCell | None, column: _Column, part: Markup, name: Markup) -> str:
    """`part` and `name` are the id of the task, escaped for an address and for text."""
    if cell is None:
        return EMPTY
    colour, state = _look(cell.state)
    title = f"{name} {column.time}: {state}{_details(cell)}"
    return f'<td><a class="cell c-{colour}" href="{column.address}/{part}" title="{title}"></a></td>'


@cache
def _look(state: str) -> tuple[str, Markup]:
    """The colour and the escaped name of a state."""
    return sign(state)[0], escape(state)


def _details(cell: GridCell) -> str:
    instances = f", {cell.succeeded} of {cell.instances} instances succeeded" if cell.instances else ""
    return instances + (f", try {cell.try_number}" if cell.try_number > 1 else "")
