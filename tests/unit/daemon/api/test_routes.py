"""Every endpoint is reached: a path with a part that may have slashes hides longer ones after it."""

import re
from typing import cast

from starlette.routing import Match, Route

from tidegate.daemon.api import routes as api
from tidegate.daemon.gateway.endpoint import Act
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.permissions import Right
from tidegate.daemon.web.app import SCREENS
from tidegate.daemon.web.screen import Form, routes

NO_SERVICE = cast("Service", None)
"""Routes read it when they answer."""


def test_each_route_is_the_first_one_for_its_address() -> None:
    for table in (api.routes(NO_SERVICE), routes(SCREENS, NO_SERVICE)):
        hidden = [(route.path, first) for route in table if (first := _first(table, route)) != route.path]
        assert hidden == []


ACTS = [
    act
    for act in (*(it for it in api.ENDPOINTS if isinstance(it, Act)), *(it.act for it in SCREENS if isinstance(it, Form)))
    if act.right is not Right.VIEW
]


def test_the_audit_log_has_words_for_each_change() -> None:
    assert [act.path for act in ACTS if not act.does.replace(" ", "").isalpha()] == []


def test_the_object_of_each_change_is_named_by_its_path_or_its_body() -> None:
    """A form of texts has the fields that its page gives it."""
    fields = {act: {*act.params.__struct_fields__, *getattr(act.body, "__struct_fields__", dict(act.about))} for act in ACTS}
    nameless = {act.path for act in ACTS if fields[act].isdisjoint(dict(act.about))}

    assert nameless == {"/dead-letters/replay", "/dead-letters/discard"}, "each dead letter is an entry of its own"


def _first(table: list[Route], route: Route) -> str:
    """The path of the route that answers a request to the address of a route."""
    (method, *_) = sorted(set(route.methods or ()) - {"HEAD"})
    scope = {"type": "http", "method": method, "path": re.sub(r"\{[^}]+\}", "999", route.path)}
    return next(other.path for other in table if other.matches(scope)[0] is Match.FULL)
