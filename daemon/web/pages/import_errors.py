"""The DAG files that cannot be read: where, since when and why."""

from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.gateway.lists import Keyset, Listed
from tidegate.daemon.permissions import Right
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.dag_pages import ImportErrorRow, list_import_errors
from tidegate.schemas.queries.db import Db

BY_PATH = Keyset("import errors", ("path",), (str,))


class ImportErrorList(Listed, frozen=True):
    """`search` is a part of the path."""

    search: str | None = None


async def read(db: Db, call: Call[ImportErrorList]) -> Page[ImportErrorRow]:
    params = call.params
    rows = await list_import_errors(db, params.search or None, BY_PATH.first(params), params.limit + 1)
    return BY_PATH.page(rows, params)


SCREEN = Screen(Read("/import-errors", Right.VIEW, read, ImportErrorList, Page[ImportErrorRow]), "import_errors.html")
