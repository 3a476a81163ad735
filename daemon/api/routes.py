"""The routes of the API, made from the tables of endpoints."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from hashlib import sha256
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidegate.daemon.api import (
    audit,
    backfills,
    dags,
    datasets,
    dead_letters,
    idempotency,
    installation,
    notes,
    notices,
    pools,
    runs,
    stream,
    tasks,
    tokens,
)
from tidegate.daemon.api.openapi import ANY, PREFIX, document
from tidegate.daemon.gateway import json_input
from tidegate.daemon.gateway.authenticate import check_csrf, require
from tidegate.daemon.gateway.commands import with_operations
from tidegate.daemon.gateway.conversion import converted
from tidegate.daemon.gateway.endpoint import Act, Call, Endpoint, Load, Read, Stream, call_of, perform
from tidegate.daemon.gateway.event_stream import EventStream
from tidegate.daemon.gateway.problem import InvalidError, Problem, problem_of, retry_of
from tidegate.daemon.gateway.refusals import Attempt, recording_refusals
from tidegate.daemon.gateway.service import Service
from tidegate.schemas.error import FATAL

ENDPOINTS: tuple[Endpoint, ...] = (
    *dags.ENDPOINTS,
    *runs.ENDPOINTS,
    *tasks.ENDPOINTS,
    *notes.ENDPOINTS,
    *datasets.ENDPOINTS,
    *backfills.ENDPOINTS,
    *pools.ENDPOINTS,
    *notices.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *installation.ENDPOINTS,
    *tokens.ENDPOINTS,
    *audit.ENDPOINTS,
)

STREAMS = stream.STREAMS

JSON = "application/json"

Handler = Callable[[Request], Awaitable[Response]]


def routes(service: Service) -> list[Route]:
    """A route for each endpoint, and the OpenAPI document."""
    made = [Route(_path(endpoint), handler(endpoint, service), methods=[endpoint.method]) for endpoint in (*ENDPOINTS, *STREAMS)]
    return [*made, Route("/openapi.json", openapi)]


async def openapi(_request: Request) -> Response:
    return Response(_document(), media_type=JSON)


@cache
def _document() -> bytes:
    """The document takes a tenth of the start of a server, so the first request for it makes it."""
    return msgspec.json.encode(document((*ENDPOINTS, *STREAMS)))


def _path(endpoint: Endpoint | Stream[Any]) -> str:
    """Names of pools may have slashes."""
    return endpoint.path.replace("{name}", "{name:path}")


def handler(endpoint: Endpoint | Stream[Any], service: Service) -> Handler:
    async def handle(request: Request) -> Response:
        try:
            return await _answer(request, endpoint, service)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - a fault is a problem for its caller, and logged
            found = problem_of(error, request.url.path)
            said = msgspec.structs.replace(found, detail=with_operations(found.detail))
            return problem_response(said, retry_of(error))

    return handle


async def _answer(request: Request, endpoint: Endpoint | Stream[Any], service: Service) -> Response:
    identity = await require(request, service)
    call = call_of(request, service, identity, endpoint)
    async with recording_refusals(call, endpoint) as attempt:
        if isinstance(endpoint, Stream):
            return EventStream(service.hub, await endpoint.work(call))
        if not isinstance(endpoint, Act):
            return _representation(request, endpoint, await perform(endpoint, call))
        check_csrf(request, identity, "")
        return await _changed(request, call, endpoint, attempt)


async def _changed(request: Request, call: Call[Any], endpoint: Act[Any, Any, Any], attempt: Attempt) -> Response:
    _check_match(call, endpoint)
    content = await request.body() or b"{}"
    attempt.body = _decoded(content, endpoint)
    work = partial(_done, endpoint, attempt.body)
    status, result = await idempotency.once(call, endpoint, f"{request.url.path}?{request.url.query}", content, work)
    return Response(result, status, _location(endpoint, result), media_type=JSON)


def _location(endpoint: Act[Any, Any, Any], result: bytes) -> dict[str, str]:
    """Where the thing is that was made. The stored result of a repeat says it, too."""
    if not endpoint.location:
        return {}
    fields = {name: quote(str(value), safe="") for name, value in msgspec.json.decode(result).items()}
    return {"location": PREFIX + endpoint.location.format_map(fields)}


def _check_match(call: Call[Any], endpoint: Act[Any, Any, Any]) -> None:
    """A change that cannot compare a header must not be done as if it had."""
    if call.facts.if_match is not None and not endpoint.versioned:
        raise InvalidError("If-Match: this change compares no ETag; leave the header out")
    if call.facts.if_match == ANY:
        raise InvalidError("If-Match: send the ETag of what you saw; * is none")
    if call.facts.if_none_match not in ((None, ANY) if endpoint.creates else (None,)):
        raise InvalidError(f"If-None-Match: {'write *, or ' if endpoint.creates else ''}leave the header out of this change")
    if None not in (call.facts.if_match, call.facts.if_none_match):
        raise InvalidError("If-Match and If-None-Match exclude each other: send one of them")


async def _done(endpoint: Act[Any, Any, Any], body: Any, call: Call[Any]) -> idempotency.Content:
    return endpoint.status, msgspec.json.encode(await perform(endpoint, call, body))


def _representation(request: Request, endpoint: Read[Any, Any] | Load[Any, Any], result: Any) -> Response:
    """The result with its ETag; without the result if the caller has it."""
    content = msgspec.json.encode(result)
    version = endpoint.version if isinstance(endpoint, Read) else None
    tag = f'"{version(result) if version else sha256(content).hexdigest()[:32]}"'
    headers = {"etag": tag}
    if version is None and tag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, headers=headers, media_type=JSON)


def _decoded(content: bytes, endpoint: Act[Any, Any, Any]) -> Any:
    try:
        values = json_input.decode(content)
    except ValueError as error:
        raise InvalidError(f"the body cannot be read: {error}") from error
    return converted(values, endpoint.body, strict=True)


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    named = dict(headers or {})
    if problem.status == HTTPStatus.UNAUTHORIZED:
        named["www-authenticate"] = "Bearer"
    return Response(msgspec.json.encode(problem), problem.status, named, "application/problem+json")
