"""The declaration of an endpoint of the API or of a page, and its execution for a caller.

A table of endpoints is the one place that says which right a path needs. Routes, the OpenAPI document and the test that tries
every role on every route follow from the tables.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec
from starlette.requests import Request

from tidegate.daemon.gateway.authenticate import Identity
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.permissions import Caller, Right, refusal
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.schemas.error import ForbiddenError
from tidegate.schemas.queries import pools
from tidegate.schemas.queries.db import Db


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """the parameters of an endpoint: of its path, and of the query. A field `dag_id` names its DAG."""


P = TypeVar("P", bound=Params)
B = TypeVar("B")
R = TypeVar("R")


class Call(msgspec.Struct, Generic[P], frozen=True):
    """A request of a caller, who has the right that the endpoint needs. `database` names the caller in audit columns."""

    service: Service
    caller: Caller
    params: P

    @property
    def settings(self) -> Settings:
        return self.service.settings

    @property
    def database(self) -> Database:
        return self.service.database.written_by(self.caller.username)


class Read(msgspec.Struct, Generic[P, R], frozen=True):
    """An endpoint that reads. `work` runs in one transaction that only reads, with statements of at most five seconds."""

    path: str
    right: Right
    work: Callable[[Db, Call[P]], Awaitable[R]]
    params: type[P]
    result: type[R]

    @property
    def method(self) -> str:
        return "GET"


class Load(msgspec.Struct, Generic[P, R], frozen=True):
    """An endpoint that reads in several transactions, or from a backend."""

    path: str
    right: Right
    work: Callable[[Call[P]], Awaitable[R]]
    params: type[P]
    result: type[R]

    @property
    def method(self) -> str:
        return "GET"


class Act(msgspec.Struct, Generic[P, B, R], frozen=True):
    """An endpoint that changes state, with a body."""

    method: str
    path: str
    right: Right
    work: Callable[[Call[P], B], Awaitable[R]]
    params: type[P]
    body: type[B]
    result: type[R]


Endpoint = Read[Any, Any] | Load[Any, Any] | Act[Any, Any, Any]


async def call_of(request: Request, service: Service, identity: Identity, endpoint: Endpoint) -> Call[Any]:
    """The call, once its parameters are valid and the caller has the right.

    Raises InvalidError or ForbiddenError; a refused change is recorded in the audit log.
    """
    call = Call(service, identity.caller, params_of(request, endpoint.params))
    await check_right(call, endpoint.right, f"{endpoint.method} {request.url.path}")
    return call


async def check_right(call: Call[Any], right: Right, what: str) -> None:
    """Raises ForbiddenError; a refused change is recorded in the audit log."""
    dag_id = getattr(call.params, "dag_id", None)
    reason = refusal(call.settings, call.caller, right, dag_id)
    if reason is None:
        return
    if right is not Right.VIEW:
        subject = "the installation" if dag_id is None else f"DAG {dag_id}"
        await call.service.database.run(pools.record, call.caller.username, "was refused", subject, {"request": what})
    raise ForbiddenError(reason)


def params_of(request: Request, type_: type[P]) -> P:
    """The parameters of the path and the query. Raises InvalidError, which names the parameter."""
    return converted({**dict(request.query_params), **request.path_params}, type_, strict=False)


def converted(values: Any, type_: type[B], *, strict: bool) -> B:
    """Raises InvalidError for values of another shape."""
    try:
        return msgspec.convert(values, type_, strict=strict)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise InvalidError(_sentence(str(error))) from error


async def perform(endpoint: Endpoint, call: Call[Any], body: Any = None) -> Any:
    """The result of the endpoint."""
    if isinstance(endpoint, Read):
        return await call.service.reader.run(endpoint.work, call)
    return await (endpoint.work(call) if isinstance(endpoint, Load) else endpoint.work(call, body))


def _sentence(problem: str) -> str:
    """`Expected `int` >= 1 - at `$.limit`` as a sentence that begins with the parameter."""
    expected, _, path = problem.partition(" - at `$.")
    return f"{path.rstrip('`')}: {expected[:1].lower()}{expected[1:]}" if path else problem
