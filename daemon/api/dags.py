"""DAGs."""

from typing import Annotated

from msgspec import Meta

from tidegate.daemon import runs
from tidegate.daemon.gateway import cursor
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Act, Call, Params, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.dag import DagPage, ListedDag, read_list, read_page
from tidegate.schemas.queries.dag_pages import DagRow
from tidegate.schemas.queries.db import Db

Limit = Annotated[int, Meta(ge=1, le=500)]


class DagList(Params, frozen=True):
    """`search` is a part of the DAG's id."""

    search: str | None = None
    cursor: str | None = None
    limit: Limit = 50


class DagPath(Params, frozen=True):
    """A DAG by its id."""

    dag_id: str


class DagPatch(Params, frozen=True):
    """What a request changes of a DAG."""

    is_paused: bool


async def list_dags(db: Db, call: Call[DagList]) -> Page[ListedDag]:
    """List DAGs by id, each with its next run by time."""
    wanted = call.params
    after = cursor.decode(wanted.cursor, tuple[str])[0] if wanted.cursor else None
    rows = await read_list(db, after=after, search=wanted.search, limit=wanted.limit + 1)
    return cursor.page(rows, wanted.limit, lambda row: (row.dag.dag_id,))


async def show_dag(db: Db, call: Call[DagPath]) -> DagPage:
    """Show a DAG: its schedule, pending events, limits, tasks, next and last runs."""
    return await read_page(db, call.params.dag_id)


async def change_dag(call: Call[DagPath], body: DagPatch) -> DagRow:
    """Pause or unpause a DAG."""
    return await runs.set_paused(call.database, call.params.dag_id, paused=body.is_paused)


ENDPOINTS = (
    Read("/dags", Right.VIEW, list_dags, DagList, Page[ListedDag]),
    Read("/dags/{dag_id}", Right.VIEW, show_dag, DagPath, DagPage),
    Act("PATCH", "/dags/{dag_id}", Right.EDIT, change_dag, DagPath, DagPatch, DagRow),
)
