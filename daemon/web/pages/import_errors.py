"""The DAG files that cannot be read: where, since when and why."""

from typing import Annotated

from msgspec import Meta

from tidegate.daemon.gateway import cursor
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.dag_pages import ImportErrorRow, list_import_errors
from tidegate.schemas.queries.db import Db


class ImportErrorList(Params, frozen=True):
    """`search` is a part of the path."""

    search: str | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


async def read(db: Db, call: Call[ImportErrorList]) -> Page[ImportErrorRow]:
    wanted = call.params
    after = cursor.decode(wanted.cursor, tuple[str])[0] if wanted.cursor else None
    rows = await list_import_errors(db, wanted.search or None, after, wanted.limit + 1)
    return cursor.page(rows, wanted.limit, lambda row: (row.path,))


SCREEN = Screen(Read("/import-errors", Right.VIEW, read, ImportErrorList, Page[ImportErrorRow]), "import_errors.html")
