"""DAGs."""

from typing import Annotated, Any

from msgspec import Meta

from tidegate.daemon import runs
from tidegate.daemon.audit_entry import pause_text
from tidegate.daemon.gateway.cursor import NOT_OURS, Page
from tidegate.daemon.gateway.endpoint import Act, Call, Nothing, Params, Read
from tidegate.daemon.gateway.lists import DagId, Keyset, Limit, Listed, Time, Year
from tidegate.daemon.gateway.paths import DagPath
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.dag import DagPage, ListedDag, read_dag_page, read_list
from tidegate.daemon.read_model.history import DagHistory, read_history
from tidegate.daemon.read_model.lookup import find_timed_dag
from tidegate.daemon.read_model.plan import DagClock, Planned, list_planned, read_clock
from tidegate.daemon.read_model.task_graph import TaskGraph, read_graph
from tidegate.daemon.read_model.version import VersionFiles, list_versions, read_files
from tidegate.daemon.read_model.why_not import DagInWords, dag_in_words, read_dag_why_not
from tidegate.schemas.queries.dag_pages import DagFilter, DagRow, DagState, ImportErrorRow, list_import_errors
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import VersionRow

Number = Annotated[int, Meta(ge=1, le=2**31 - 1)]

BY_ID = Keyset("dags", ("dag.dag_id",), (str,))
BY_NUMBER = Keyset("versions", ("number",), (Number,))
NEXT = Keyset("next runs", Planned.__struct_fields__, (Time,) * 4)
BY_PATH = Keyset("import errors", ("path",), (str,))


class DagList(Listed, frozen=True):
    """The DAGs, or some of them."""

    search: Annotated[str | None, Meta(description="Only DAGs with this text in their id.")] = None
    tag: Annotated[str | None, Meta(description="Only DAGs with this tag.")] = None
    state: Annotated[
        DagState | None, Meta(description="Only DAGs in this state, with a broken file, or whose last run is in this state.")
    ] = None

    @property
    def wanted(self) -> DagFilter:
        """An empty text, as of the form of a page, is no filter."""
        return DagFilter(self.search or None, self.tag or None, self.state)


class ImportErrorList(Listed, frozen=True):
    """The broken DAG files, or some of them."""

    search: Annotated[str | None, Meta(description="Only files with this text in their path.")] = None


class NextRuns(Listed, frozen=True, kw_only=True):
    """The next runs of a DAG, from the one that starts next or from a time on."""

    dag_id: DagId
    after: Annotated[Time | None, Meta(description="Only runs due later than this time, which may be past.")] = None
    since: Annotated[Time | None, Meta(description="Only runs with this logical date or a later one.")] = None
    limit: Limit = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.after is not None and self.since is not None:
            raise ValueError("give either after or since")


class HistoryOf(DagPath, frozen=True):
    """A year of a DAG, and its last runs."""

    year: Annotated[Year | None, Meta(description="The year of the days; without it that of the last run.")] = None
    limit: Limit = 50


class GraphOf(DagPath, frozen=True):
    """The tasks of a DAG, or of a group in it."""

    group: Annotated[str, Meta(description="Only the tasks within this group.")] = ""


class VersionsOf(Listed, frozen=True, kw_only=True):
    """The versions of a DAG."""

    dag_id: DagId
    limit: Limit = 20


class SourceOf(DagPath, frozen=True):
    """A version of a DAG."""

    version: Annotated[Number | None, Meta(description="The number of the version; without it the current one.")] = None


class DagPatch(Params, frozen=True):
    """What a request changes of a DAG."""

    is_paused: bool


async def list_dags(db: Db, call: Call[DagList]) -> Page[ListedDag]:
    """List DAGs by id, each with its next run by time."""
    params = call.params
    rows = await read_list(db, params.wanted, after=BY_ID.first(params), limit=params.limit + 1)
    return BY_ID.page(rows, params)


async def show_dag(db: Db, call: Call[DagPath]) -> DagPage:
    """Show a DAG: its schedule, pending events, limits, tasks, next and last runs."""
    return await read_dag_page(db, call.params.dag_id)


async def why_not_dag(db: Db, call: Call[DagPath]) -> DagInWords:
    """Explain why a DAG has no new run: the state of each gate, and the change that opens it."""
    return dag_in_words(await read_dag_why_not(db, call.params.dag_id))


async def show_timetable(db: Db, call: Call[DagPath]) -> DagClock:
    """Show the time zone of a DAG's timetable, and whether the runs that it plans start."""
    return await read_clock(db, call.params.dag_id)


async def next_runs(db: Db, call: Call[NextRuns]) -> Page[Planned]:
    """List the next runs that a DAG's timetable plans; without `after` and `since` from the one that starts next."""
    params = call.params
    last = _planned(NEXT.position(params))
    dag = await find_timed_dag(db, params.dag_id)
    runs = list_planned(dag, db.now, params.limit + 1, due_after=params.after, since=params.since, last=last)
    return NEXT.page(runs, params)


def _planned(key: tuple[Any, ...] | None) -> Planned | None:
    """The run of a cursor. Raises InvalidError for times that no timetable gives: the walk from there could take hours."""
    last = Planned(*key) if key else None
    if last and not last.is_ordered:
        raise InvalidError(NOT_OURS)
    return last


async def show_history(db: Db, call: Call[HistoryOf]) -> DagHistory:
    """Show the past of a DAG: its runs of a year by day and state, and its last runs with the usual durations."""
    return await read_history(db, call.params.dag_id, call.params.year, None, call.params.limit)


async def show_graph(db: Db, call: Call[GraphOf]) -> TaskGraph:
    """Show the tasks of a DAG as a graph. Groups stand for their tasks where these are more than 500."""
    return await read_graph(db, call.params.dag_id, call.params.group)


async def show_versions(db: Db, call: Call[VersionsOf]) -> Page[VersionRow]:
    """List the versions of a DAG, newest first."""
    params = call.params
    return BY_NUMBER.page(await list_versions(db, params.dag_id, params.limit + 1, BY_NUMBER.first(params)), params)


async def show_source(db: Db, call: Call[SourceOf]) -> VersionFiles:
    """Show the DAG file of a version, and the modules that its functions import."""
    return await read_files(db, call.params.dag_id, call.params.version)


async def change_dag(call: Call[DagPath], body: DagPatch) -> DagRow:
    """Pause or unpause a DAG."""
    return await runs.set_paused(call.database, call.params.dag_id, paused=body.is_paused)


async def release_dag(call: Call[DagPath], _body: Nothing) -> DagRow:
    """Release a held DAG: a daemon decides about it again."""
    return await runs.release(call.database, call.params.dag_id)


async def delete_dag(call: Call[DagPath], _body: Nothing) -> DagRow:
    """Delete a DAG that is in no DAG file: its versions, runs and pending events. Returns it as it was.

    A long history takes minutes; a call that was interrupted can be repeated.
    """
    return await runs.delete(call.database, call.params.dag_id)


async def import_errors(db: Db, call: Call[ImportErrorList]) -> Page[ImportErrorRow]:
    """List the DAG files that cannot be parsed, and why, by path."""
    params = call.params
    rows = await list_import_errors(db, params.search or None, BY_PATH.first(params), params.limit + 1)
    return BY_PATH.page(rows, params)


ENDPOINTS = (
    Read("/dags", Right.VIEW, list_dags, DagList, Page[ListedDag]),
    Read("/dags/{dag_id}", Right.VIEW, show_dag, DagPath, DagPage),
    Read("/dags/{dag_id}/why-not", Right.VIEW, why_not_dag, DagPath, DagInWords),
    Read("/dags/{dag_id}/timetable", Right.VIEW, show_timetable, DagPath, DagClock),
    Read("/dags/{dag_id}/next-runs", Right.VIEW, next_runs, NextRuns, Page[Planned]),
    Read("/dags/{dag_id}/history", Right.VIEW, show_history, HistoryOf, DagHistory),
    Read("/dags/{dag_id}/graph", Right.VIEW, show_graph, GraphOf, TaskGraph),
    Read("/dags/{dag_id}/versions", Right.VIEW, show_versions, VersionsOf, Page[VersionRow]),
    Read("/dags/{dag_id}/source", Right.VIEW, show_source, SourceOf, VersionFiles),
    Act(
        "PATCH",
        "/dags/{dag_id}",
        Right.EDIT,
        change_dag,
        DagPath,
        DagPatch,
        DagRow,
        resumes=True,
        does="paused or unpaused a DAG",
        says=lambda body: pause_text(is_paused=body.is_paused),
    ),
    Act(
        "POST",
        "/dags/{dag_id}/release",
        Right.EDIT,
        release_dag,
        DagPath,
        Nothing,
        DagRow,
        does="released a DAG",
    ),
    Act("DELETE", "/dags/{dag_id}", Right.EDIT, delete_dag, DagPath, Nothing, DagRow, does="deleted a DAG"),
    Read("/import-errors", Right.VIEW, import_errors, ImportErrorList, Page[ImportErrorRow]),
)
