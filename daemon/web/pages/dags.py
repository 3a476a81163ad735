"""The list of DAGs."""

from collections.abc import Sequence

from msgspec import Struct

from tidegate.daemon.api.dags import DagList, list_dags
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.condition import schedule_of
from tidegate.daemon.read_model.dag import ListedDag, state_of
from tidegate.daemon.read_model.stuck import StuckRun, read_stuck_of
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.dag_pages import DagRow, DagState, LastRun, last_runs
from tidegate.schemas.queries.dataset_pages import search
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunState

RUNS = 12
"""The runs in the strip of a DAG."""

DATASETS = 5
"""The datasets that a search shows beside DAGs."""


class DagLine(Struct, frozen=True):
    """A line of the list. `why` is the reason of its state; `without_time` says what starts a DAG that no time starts.

    `stuck` is a run that waits for slots longer than usual.
    """

    listed: ListedDag
    state: str
    why: str
    schedule: str
    without_time: str
    runs: Sequence[LastRun]
    stuck: StuckRun | None


STATES = tuple((state, f"last run {state}" if state in {*map(str, RunState)} else str(state)) for state in DagState)
"""The states in words."""


class DagsScreen(Page[DagLine], frozen=True):
    """The list, and the first datasets with the text in their URIs."""

    datasets: Sequence[str] = ()
    states: Sequence[tuple[DagState, str]] = STATES


async def read(db: Db, call: Call[DagList]) -> DagsScreen:
    params = call.params
    listed = await list_dags(db, call)
    dag_ids = [row.dag.dag_id for row in listed.items]
    runs, stuck = await last_runs(db, dag_ids, RUNS), await read_stuck_of(db, dag_ids, call.settings)
    lines = [_line(row, runs[row.dag.dag_id], stuck.get(row.dag.dag_id)) for row in listed.items]
    datasets = await search(db, params.search, DATASETS) if params.search and not params.cursor else ()
    return DagsScreen(lines, listed.next_cursor, datasets)


def _line(listed: ListedDag, runs: Sequence[LastRun], stuck: StuckRun | None) -> DagLine:
    dag = listed.dag
    return DagLine(listed, state_of(dag), why(listed), schedule_of(dag, listed.timetable), without_time(dag), runs, stuck)


def why(listed: ListedDag) -> str:
    """The reason of a DAG's state, in a few words; empty where the DAG is active."""
    dag = listed.dag
    if dag.held_since is not None:
        return dag.hold_reason or "a decision about it failed"
    if dag.import_error is not None:
        return f"its file is broken: {dag.import_error}"
    if dag.is_stale:
        return "it is in no DAG file"
    return "a user paused it: no run starts" if dag.is_paused else ""


def without_time(dag: DagRow) -> str:
    """What starts the next run of a DAG that no time starts, in a few words."""
    state = state_of(dag)
    if state != "active":
        return f"none while it is {state}"
    return "by a request" if dag.schedule is None else "when its datasets come, or by a request"


SCREEN = Screen(Read("/dags", Right.VIEW, read, DagList, DagsScreen), "dags.html")
