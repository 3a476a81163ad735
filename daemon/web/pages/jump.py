"""The box at the top of each page: the id of a DAG or the URI of a dataset leads to its page, any other text to a search."""

from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tidegate.daemon.gateway.authenticate import require
from tidegate.daemon.gateway.endpoint import Params, params_of
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.web.rendering import dag_url, url
from tidegate.daemon.web.screen import guarded
from tidegate.schemas.queries import dag_pages, dataset_pages
from tidegate.schemas.queries.db import Db


class Jump(Params, frozen=True):
    """The text in the box."""

    search: str = ""


def route(service: Service) -> Route:
    return Route("/jump", guarded(partial(_jump, service)), methods=["GET"])


async def _jump(service: Service, request: Request) -> Response:
    await require(request, service)
    text = params_of(request, Jump, ignores_unknown=True).search.strip()
    return RedirectResponse(await service.reader.run(target, text), HTTPStatus.SEE_OTHER)


async def target(db: Db, text: str) -> str:
    """The address of what has exactly this name, or of the list of DAGs and datasets that contain the text."""
    if await dag_pages.list_dags(db, text):
        return dag_url(text)
    if await dataset_pages.rhythms_of(db, [text]):
        return url("dataset", uri=text)
    return url("dags", search=text or None)
