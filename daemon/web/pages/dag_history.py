"""The past of a DAG: a calendar of its runs, and how long they took."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.gateway.lists import Year
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.history import DagHistory, read_history
from tidegate.daemon.web.duration_chart import Chart, duration_chart
from tidegate.daemon.web.heat_map import HeatMap, Square, heat_map, legend
from tidegate.daemon.web.pages.dag import GRID, place
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.db import Db


class HistoryParams(Params, frozen=True):
    """A year of the calendar; and a cursor before whose run the chart ends."""

    dag_id: str
    year: Year | None = None
    before: str | None = None
    runs: Annotated[int, Meta(ge=1, le=500)] = 100


class HistoryScreen(Struct, frozen=True):
    """The past of a DAG. `calendar` is None before the first run."""

    history: DagHistory
    calendar: HeatMap | None
    chart: Chart
    older: str | None
    legend: Sequence[tuple[str, Square]] = legend("success", "running", "failed", "queued")


async def read(db: Db, call: Call[HistoryParams]) -> HistoryScreen:
    params = call.params
    history = await read_history(db, params.dag_id, params.year, place(params.before), params.runs)
    return HistoryScreen(
        history=history,
        calendar=calendar(history),
        chart=duration_chart(history.runs, history.usual, db.now),
        older=GRID.cursor(history.runs[0]) if history.has_older else None,
    )


def calendar(history: DagHistory) -> HeatMap | None:
    if history.first is None or history.last is None:
        return None
    return heat_map(history.year, history.first, history.last, history.days, "no run")


SCREEN = Screen(Read("/dags/{dag_id}/history", Right.VIEW, read, HistoryParams, HistoryScreen), "dag_history.html")
