"""What every page has: its stream, the way back from a problem, and the navigation."""

import re
from http import HTTPStatus

import pytest
from starlette.requests import Request

from tidegate.daemon.api.datasets import DataGraphOf
from tidegate.daemon.gateway.endpoint import Params
from tidegate.daemon.gateway.paths import RunPath
from tidegate.daemon.gateway.problem import problem
from tidegate.daemon.live.hub import Hub
from tidegate.daemon.web.pages.dag import DagParams
from tidegate.daemon.web.screen import live_of, problem_page


@pytest.mark.parametrize(
    ("params", "about"),
    [
        (DagParams(dag_id="d"), ("d", None)),
        (DataGraphOf(dag_id="d"), ("d", None)),
        (DataGraphOf(), (None, None)),
        (RunPath(dag_id="d", run_id="r"), ("d", "r")),
        (RunPath(dag_id="d", run_id="latest"), ("d", None)),
    ],
)
def test_all_pages_share_a_stream_and_know_what_they_are_about(params: Params, about: tuple[str | None, str | None]) -> None:
    live = live_of(params, Hub())

    assert (live.dag_id, live.run_id) == about
    assert live.stream == "/api/v1/stream?coalesce=true"


@pytest.mark.parametrize(
    ("referer", "back"),
    [
        ("", "/"),
        ("http://example.org/dags/a", "http://example.org/dags/a"),
        ("https://example.org/dags/a", "https://example.org/dags/a"),
        ("https://example.org.evil/", "/"),
        ("https://example.org", "/"),
        ("javascript://example.org/%0Aalert(1)", "/"),
    ],
)
def test_a_problem_leads_back_to_a_page_of_this_server(referer: str, back: str) -> None:
    """Behind a proxy with TLS the request is without it, and the page before had it."""
    headers = [(b"host", b"example.org"), (b"referer", referer.encode())]
    scope = {"type": "http", "method": "GET", "scheme": "http", "path": "/dags/b", "query_string": b"", "headers": headers}

    page = bytes(problem_page(Request(scope), problem("not-found", HTTPStatus.NOT_FOUND, "no such DAG")).body).decode()

    assert re.findall(r'class="button" href="([^"]*)">Back</a>', page) == [back]
