"""Every endpoint is reached: a path with a part that may have slashes hides longer ones after it."""

import re
from typing import cast

from starlette.routing import Match, Route

from tidegate.daemon.api import routes as api
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.web.app import SCREENS
from tidegate.daemon.web.screen import routes

NO_SERVICE = cast("Service", None)
"""Routes read it when they answer."""


def test_each_route_is_the_first_one_for_its_address() -> None:
    for table in (api.routes(NO_SERVICE), routes(SCREENS, NO_SERVICE)):
        hidden = [(route.path, first) for route in table if (first := _first(table, route)) != route.path]
        assert hidden == []


def _first(table: list[Route], route: Route) -> str:
    """The path of the route that answers a request to the address of a route."""
    (method, *_) = sorted(set(route.methods or ()) - {"HEAD"})
    scope = {"type": "http", "method": method, "path": re.sub(r"\{[^}]+\}", "999", route.path)}
    return next(other.path for other in table if other.matches(scope)[0] is Match.FULL)
