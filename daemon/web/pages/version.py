"""A version of a DAG: its code, and what changed."""

from typing import Annotated

from msgspec import Meta

from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.version import VersionPage, read_version
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.db import Db


class VersionPath(Params, frozen=True):
    """A version of a DAG by its number."""

    dag_id: str
    number: Annotated[int, Meta(ge=1, lt=2**31)]


async def read(db: Db, call: Call[VersionPath]) -> VersionPage:
    return await read_version(db, call.params.dag_id, call.params.number)


SCREEN = Screen(
    Read("/dags/{dag_id}/versions/{number}", Right.VIEW, read, VersionPath, VersionPage), "version.html", is_live=False
)
