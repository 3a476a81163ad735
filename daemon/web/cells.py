"""The cells of the grid as HTML. A page has thousands, for which a template takes a second; each part is escaped here."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from tidegate.daemon.read_model.grid import Grid, GridLine
from tidegate.daemon.web.rendering import colour, run_url, state_word
from tidegate.daemon.web.shown import escaped
from tidegate.schemas.queries.grid import GridCell, GridRun
from tidegate.schemas.text import utc

EMPTY = "<td></td>"

LEGEND = tuple(
    (colour(state), word)
    for state, word in (
        *((state, state_word(state)) for state in ("success", "running", "failed", "upstream_failed")),
        ("scheduled", "waiting"),
        ("skipped", "skipped"),
    )
)
"""The colours of cells, and what they mean."""


def rows_of(grid: Grid, dag_id: str) -> list[Markup]:
    """The cells of each line of the grid, in its order."""
    columns = [_column(dag_id, run) for run in grid.runs]
    return [_cells(line, columns) for line in grid.lines]


class _Column(NamedTuple):
    """A run: the beginning of its addresses, and its time."""

    address: str
    time: str


def _column(dag_id: str, run: GridRun) -> _Column:
    return _Column(_escaped(run_url(dag_id, run.run_id, "tasks")), utc(run.order_at))


def _cells(line: GridLine, columns: Sequence[_Column]) -> Markup:
    name = _escaped(line.task.task_id)
    between = f'/{_escaped(quote(line.task.task_id, safe=""))}" title="{name} '
    cells = (_cell(cell, column, between) for cell, column in zip(line.cells, columns, strict=True))
    return Markup("".join(cells))  # noqa: S704 - each part is escaped


def _cell(cell: GridCell | None, column: _Column, between: str) -> str:
    """`between` its address and its time is the id of the task."""
    if cell is None:
        return EMPTY
    begin, end = _look(cell)
    return f"{begin}{column.address}{between}{column.time}{end}"


@lru_cache(maxsize=1024)
def _look(cell: GridCell) -> tuple[str, str]:
    """What comes before the address of the cell, and after its time. The cells of a page are few different ones."""
    begin = f'<td><a class="cell c-{colour(cell.state)}" href="'
    return begin, f': {_escaped(cell.state)}{_details(cell)}"></a></td>'


def _details(cell: GridCell) -> str:
    instances = f", {cell.succeeded} of {cell.instances} instances succeeded" if cell.instances else ""
    return instances + (f", try {cell.try_number}" if cell.try_number > 1 else "")


def _escaped(text: str) -> str:
    """A plain string: to put a Markup into another string takes several times as long."""
    return str(escaped(text))
