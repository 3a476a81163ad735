"""The versions of a DAG; and one of them: its code, and what changed."""

from typing import Annotated

from anyio.to_thread import run_sync
from msgspec import Meta

from tidegate.daemon.api.dags import VersionsOf, show_versions
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Load, Params, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.version import VersionPage, compared, read_pair
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.grid import VersionRow


class VersionPath(Params, frozen=True):
    """A version of a DAG by its number."""

    dag_id: str
    number: Annotated[int, Meta(ge=1, lt=2**31)]


async def load(call: Call[VersionPath]) -> VersionPage:
    pair = await call.service.reader.run(read_pair, call.params.dag_id, call.params.number)
    return await run_sync(compared, pair)


LIST = Screen(Read("/dags/{dag_id}/versions", Right.VIEW, show_versions, VersionsOf, Page[VersionRow]), "versions.html")
SCREEN = Screen(
    Load("/dags/{dag_id}/versions/{number}", Right.VIEW, load, VersionPath, VersionPage), "version.html", is_live=False
)
