"""Every route of the tables, with every role: a route without its right is refused, and no route fails."""

import re
from http import HTTPStatus

import httpx
import pytest

from tests.integration.web.conftest import Site, csrf_of
from tidegate.daemon.api.openapi import PREFIX
from tidegate.daemon.api.routes import ENDPOINTS
from tidegate.daemon.gateway.endpoint import Endpoint
from tidegate.daemon.permissions import NEEDED, Role
from tidegate.daemon.web.app import SCREENS
from tidegate.daemon.web.screen import Screen

PAGES: list[Endpoint] = [
    endpoint for screen in SCREENS for endpoint in ([screen.read] if isinstance(screen, Screen) else [screen.preview, screen.act])
]


def address(endpoint: Endpoint, prefix: str = "") -> str:
    """An address whose objects do not exist."""
    return prefix + re.sub(r"\{\w+\}", "999", endpoint.path)


def has_right(role: Role, endpoint: Endpoint) -> bool:
    return list(Role).index(role) >= list(Role).index(NEEDED[endpoint.right])


def is_as_expected(answer: httpx.Response, *, allowed: bool) -> bool:
    return answer.status_code < 500 and (answer.status_code in (401, 403)) is not allowed


@pytest.mark.parametrize("role", Role)
async def test_of_the_api(site: Site, role: Role) -> None:
    wrong = []
    async with site.program(role) as client, site.anonymous() as nobody:
        for endpoint in ENDPOINTS:
            path = address(endpoint, PREFIX)
            answer = await client.request(endpoint.method, path, content=None if endpoint.method == "GET" else "{}")
            unknown = await nobody.request(endpoint.method, path)
            if not is_as_expected(answer, allowed=has_right(role, endpoint)) or unknown.status_code != HTTPStatus.UNAUTHORIZED:
                wrong.append((endpoint.method, path, answer.status_code, unknown.status_code))

    assert wrong == []


@pytest.mark.parametrize("role", Role)
async def test_of_the_pages(site: Site, role: Role) -> None:
    wrong = []
    async with site.browser(role) as client, site.anonymous() as nobody:
        csrf = csrf_of(await client.get("/"))
        for endpoint in PAGES:
            path = address(endpoint)
            data = None if endpoint.method == "GET" else {"csrf": csrf}
            answer = await client.request(endpoint.method, path, data=data)
            unknown = await nobody.request(endpoint.method, path)
            refused = HTTPStatus.SEE_OTHER if endpoint.method == "GET" else HTTPStatus.UNAUTHORIZED
            if not is_as_expected(answer, allowed=has_right(role, endpoint)) or unknown.status_code != refused:
                wrong.append((endpoint.method, path, answer.status_code, unknown.status_code))

    assert wrong == []


def test_no_two_endpoints_share_a_path_and_a_method() -> None:
    for table in (ENDPOINTS, PAGES):
        routes = [(endpoint.method, endpoint.path) for endpoint in table]
        assert len(routes) == len(set(routes))
