"""The ASGI application: the pages, the API, and the guard before both."""

import re
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from tidegate.daemon.api import routes as api
from tidegate.daemon.api.openapi import PREFIX as API_PREFIX
from tidegate.daemon.gateway.guard import Guard, host_of
from tidegate.daemon.gateway.problem import problem
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.settings import PREFIX, Settings, SettingsError
from tidegate.daemon.web import health
from tidegate.daemon.web.pages import (
    audit,
    backfill,
    backfill_forms,
    backfill_new,
    backfills,
    clusters,
    dag,
    dag_forms,
    dag_graph,
    dag_history,
    dags,
    dataset_graph,
    datasets,
    dead_letter_forms,
    dead_letters,
    event,
    import_errors,
    jump,
    login,
    note_forms,
    notifications,
    now,
    queue,
    run,
    run_forms,
    system,
    system_forms,
    task,
    version,
)
from tidegate.daemon.web.rendering import digest
from tidegate.daemon.web.screen import Form, Screen, problem_page, routes

_HOST_NAME = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
"""A name in lower case, or an address."""

IMMUTABLE = "public, max-age=31536000, immutable"

LEAST_BYTES = 1000
"""A smaller answer fits into one packet as it is."""

LEVEL = 4
"""Of gzip: it makes a list of DAGs a tenth of its size, and higher ones take twice the time for a few percent."""

SCREENS: tuple[Screen | Form, ...] = (
    now.SCREEN,
    dags.SCREEN,
    dag.SCREEN,
    dag_history.SCREEN,
    dag_graph.SCREEN,
    *dag_forms.FORMS,
    version.LIST,
    version.SCREEN,
    run.SCREEN,
    *run_forms.FORMS,
    *note_forms.FORMS,
    task.SCREEN,
    backfills.SCREEN,
    backfill_new.FORM,
    backfill.SCREEN,
    *backfill_forms.FORMS,
    datasets.LIST,
    datasets.ONE,
    dataset_graph.SCREEN,
    event.SCREEN,
    queue.LIST,
    queue.FORM,
    queue.ONE,
    clusters.SCREEN,
    dead_letters.LIST,
    *dead_letter_forms.FORMS,
    dead_letters.ONE,
    import_errors.SCREEN,
    system.SCREEN,
    *system_forms.FORMS,
    notifications.SCREEN,
    audit.SCREEN,
)


def application(service: Service) -> ASGIApp:
    """The application that uvicorn serves. Event streams are not compressed: their parts would wait for each other."""
    inner = Starlette(routes=_routes(service), exception_handlers={HTTPException: _unrouted})
    compressed = GZipMiddleware(inner, minimum_size=LEAST_BYTES, compresslevel=LEVEL)
    return Guard(compressed, hosts(service.settings), of_any_host={health.PATH})


def hosts(settings: Settings) -> set[str]:
    """The host names that the server answers for. A port in the setting is ignored, as one in a request is.

    Raises SettingsError for a text that no browser sends as a host.
    """
    named = {host_of(name.strip()) for name in settings.web_hosts.split(",")} - {""}
    for name in sorted(named):
        if not _HOST_NAME.fullmatch(name):
            raise SettingsError(
                f"{PREFIX}WEB_HOSTS has {name!r:.200}, which is no name of a host; write names as browsers send them, such as"
                " tidegate.example.org, without a scheme, a path or *"
            )
    return {"localhost", settings.web_host.lower(), *named}


def _routes(service: Service) -> list[BaseRoute]:
    return [
        Mount(API_PREFIX, routes=api.routes(service)),
        Mount("/static", _ImmutableFiles(packages=[(__package__, "static")])),
        health.route(service),
        *login.routes(service),
        jump.route(service),
        task.route(service),
        *routes(SCREENS, service),
    ]


class _ImmutableFiles(StaticFiles):
    """Browsers keep the files: their addresses change with their content.

    A page of another version asks for the content of that version: what it gets from here is not kept under its address.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        is_version = Request(scope).query_params.get("v") == digest(path)
        response.headers["cache-control"] = IMMUTABLE if is_version else "no-store"
        return response


async def _unrouted(request: Request, error: Exception) -> Response:
    """An unknown path, or a method that a path does not have."""
    status = HTTPStatus(error.status_code if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND)
    name, detail = ("not-found", "there is no such page") if status == HTTPStatus.NOT_FOUND else ("method", status.description)
    found = problem(name, status, detail, request.url.path)
    return api.problem_response(found) if request.url.path.startswith(f"{API_PREFIX}/") else problem_page(request, found)
