"""The OpenAPI document: it is valid, and the server answers drawn requests as it declares."""

import os
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
import httpx
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from openapi_spec_validator import validate
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.integration.api.conftest import two_dags
from tests.integration.cli import dead_letters
from tests.integration.web.conftest import MakeSite, Site
from tidegate.daemon.api.openapi import document
from tidegate.daemon.api.routes import ENDPOINTS, STREAMS
from tidegate.daemon.gateway.endpoint import Act, Nothing
from tidegate.daemon.standalone.web import NO_TLS

# A stream has no end, so that no request of it is drawn.
DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document(ENDPOINTS)))

CHECKS = [content_type_conformance, response_headers_conformance, response_schema_conformance, status_code_conformance]

LONG = bool(os.environ.get("TEST_LONG"))
EXAMPLES = 300 if LONG else 4

ENDS_THE_CALLER = ("DELETE", "/tokens/{id}")
"""A drawn request would revoke the token of the test."""

OPERATIONS = [
    (method.upper(), path)
    for path, operations in DOCUMENT["paths"].items()
    for method in operations
    if (method.upper(), path) != ENDS_THE_CALLER
]


def test_the_document_is_valid() -> None:
    validate(DOCUMENT)


def test_it_has_every_endpoint_with_its_errors() -> None:
    for endpoint in ENDPOINTS:
        operation = DOCUMENT["paths"][endpoint.path][endpoint.method.lower()]
        assert {"400", "401", "404", "409", "429", "500", "503"} <= operation["responses"].keys()
        if isinstance(endpoint, Act):
            assert {str(endpoint.status), "403", "412", "413", "422"} <= operation["responses"].keys()
            assert ("requestBody" in operation) is (endpoint.body is not Nothing)


async def test_it_is_served(site: Site) -> None:
    async with site.anonymous() as client:
        served = (await client.get("/api/v1/openapi.json")).json()

    validate(served)
    assert served == msgspec.json.decode(msgspec.json.encode(document((*ENDPOINTS, *STREAMS))))
    assert served["paths"]["/stream"]["get"]["responses"]["200"]["content"].keys() == {"text/event-stream"}


@pytest.mark.long
@pytest.mark.timeout(3600 if LONG else 900)
async def test_drawn_requests_get_declared_answers(make_site: MakeSite) -> None:
    async with make_site(web_requests_per_s=0) as site:
        await two_dags(site.history)
        await dead_letters.written(site.history)
        async with site.program() as client:
            for path, body in STATE:
                assert (await client.post(f"/api/v1{path}", json=body)).status_code == HTTPStatus.CREATED
        token = await site.token()
        seen = await anyio.to_thread.run_sync(partial(draw, site.address, token))
        assert {"200", "201", "400", "404", "409"} <= seen, seen
        async with site.program() as client:
            assert (await client.get("/api/v1/dags")).status_code == HTTPStatus.OK


STATE = (
    ("/dags/mine_a/runs", {"run_id": "r"}),
    ("/backfills", {"dag_id": "mine_a", "start_date": "2013-01-01T00:00:00Z", "end_date": "2013-01-02T00:00:00Z"}),
)

IDS = {"dag_id": "mine_a", "run_id": "latest", "task_id": "first", "backfill_id": 1, "id": 1, "name": "default_pool"}


def draw(address: str, token: str) -> set[str]:
    """Each operation with drawn parameters and bodies, and again with ids of objects that exist; returns the statuses."""
    seen: set[str] = set()
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    with httpx.Client(verify=NO_TLS, base_url=address, headers={"authorization": f"Bearer {token}"}) as client:
        for method, path in OPERATIONS:
            for known in ({}, IDS):
                _draw(client, schema[path][method], known, seen)
    return seen


def _draw(client: httpx.Client, operation: Any, known: dict[str, Any], seen: set[str]) -> None:
    @seed(int(os.environ.get("TEST_SEED", "1")))
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def call(case: Any) -> None:
        case.path_parameters = {**case.path_parameters, **{n: v for n, v in known.items() if n in case.path_parameters}}
        response = case.call(base_url=f"{client.base_url}/api/v1".replace("//api", "/api"), headers=dict(client.headers))
        assert response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR, response.text
        seen.add(str(response.status_code))
        case.validate_response(response, checks=CHECKS)

    call()
