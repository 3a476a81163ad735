"""The routes of the API, made from the tables of endpoints."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidegate.daemon.api import dags
from tidegate.daemon.api.openapi import document
from tidegate.daemon.gateway.authenticate import check_csrf, require
from tidegate.daemon.gateway.endpoint import Act, Endpoint, call_of, converted, perform
from tidegate.daemon.gateway.problem import RETRY_S, InvalidError, Problem, problem_of
from tidegate.daemon.gateway.service import Service
from tidegate.schemas.error import FATAL

ENDPOINTS: tuple[Endpoint, ...] = (*dags.ENDPOINTS,)

Handler = Callable[[Request], Awaitable[Response]]


def routes(service: Service) -> list[Route]:
    """A route for each endpoint, and the OpenAPI document."""
    content = msgspec.json.encode(document(ENDPOINTS))

    async def openapi(_request: Request) -> Response:
        return Response(content, media_type="application/json")

    made = [Route(endpoint.path, handler(endpoint, service), methods=[endpoint.method]) for endpoint in ENDPOINTS]
    return [*made, Route("/openapi.json", openapi)]


def handler(endpoint: Endpoint, service: Service) -> Handler:
    async def handle(request: Request) -> Response:
        try:
            return json_response(await _result(request, endpoint, service))
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - a fault is a problem for its caller, and logged
            return problem_response(problem_of(error, request.url.path))

    return handle


async def _result(request: Request, endpoint: Endpoint, service: Service) -> Any:
    identity = await require(request, service)
    call = await call_of(request, service, identity, endpoint)
    if not isinstance(endpoint, Act):
        return await perform(endpoint, call)
    check_csrf(request, identity, "")
    return await perform(endpoint, call, await _body(request, endpoint))


async def _body(request: Request, endpoint: Act[Any, Any, Any]) -> Any:
    try:
        values = msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidError(f"the body is no JSON: {error}") from error
    return converted(values, endpoint.body, strict=True)


def json_response(result: Any) -> Response:
    return Response(msgspec.json.encode(result), media_type="application/json")


def problem_response(problem: Problem) -> Response:
    headers = {}
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["retry-after"] = str(RETRY_S)
    return Response(msgspec.json.encode(problem), problem.status, headers, "application/problem+json")
