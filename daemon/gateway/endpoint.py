"""The declaration of an endpoint of the API or of a page, and its execution for a caller.

A table of endpoints is the one place that says which right a path needs. Routes, the OpenAPI document and the test that tries
every role on every route follow from the tables.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, Generic, TypeVar

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request

from tidegate.daemon.audit_entry import recorded
from tidegate.daemon.gateway.authenticate import Identity, address_of
from tidegate.daemon.gateway.conversion import converted, given_once
from tidegate.daemon.gateway.json_input import NUL
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.live.hub import OpenStream
from tidegate.daemon.permissions import Caller, Right, refusal
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.schemas.effect.audit import OF_DAG, Form, object_name
from tidegate.schemas.error import ForbiddenError
from tidegate.schemas.queries import audit_log
from tidegate.schemas.queries.db import Db
from tidegate.schemas.time_range import in_range


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of an endpoint: of its path, and of the query. A field `dag_id` names its DAG."""

    def __post_init__(self) -> None:
        """Raises ValueError for a value that no column can store."""
        _check(msgspec.structs.astuple(self))


class Nothing(Params, frozen=True):
    """The body of a change that needs none."""


class RequestFacts(msgspec.Struct, frozen=True):
    """A request beside its parameters: the address it came from, its id, and what its headers ask for.

    `key_since`: when the key was new. `is_resumed`: the request failed before, or its server ended, and may have done it.
    """

    address: str = ""
    request_id: str = ""
    if_match: str | None = None
    if_none_match: str | None = None
    idempotency_key: str | None = None
    key_since: datetime | None = None
    last_event_id: str | None = None
    is_resumed: bool = False


LONGEST_KEY = 255
"""The most characters of an Idempotency-Key."""

P = TypeVar("P", bound=Params)
B = TypeVar("B")
R = TypeVar("R")


class Call(msgspec.Struct, Generic[P], frozen=True):
    """A request of a caller, who has the right that the endpoint needs.

    `database` names the caller in audit columns, and in the audit log also the address and the id of the request.
    `credential_id`: of the token or session that named the caller.
    """

    service: Service
    caller: Caller
    params: P
    facts: RequestFacts = RequestFacts()
    credential_id: int = 0

    @property
    def settings(self) -> Settings:
        return self.service.settings

    @property
    def database(self) -> Database:
        origin = {"from": self.facts.address, "request_id": self.facts.request_id}
        return self.service.database.written_by(self.caller.username, **origin)


class Read(msgspec.Struct, Generic[P, R], frozen=True):
    """An endpoint that reads. `work` runs in one transaction that only reads, with statements of at most five seconds.

    `version` of a result is its ETag, which a change compares with If-Match. `is_fresh`: clients read it right after a change,
    which a standby may not know yet, so that the primary answers.
    """

    path: str
    right: Right
    work: Callable[[Db, Call[P]], Awaitable[R]]
    params: type[P]
    result: type[R]
    version: Callable[[R], str] | None = None
    is_fresh: bool = False

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
    """An endpoint that changes state, with a body.

    With an Idempotency-Key its result is stored, and returned to a repeated request. `resumes`: a repeat of a request that
    failed, or whose server ended, may do the work again, which then finds what was done, or sets it once more. `location` is the
    path of what it made, with fields of its result. `versioned`: it compares If-Match. `only_shows`: whether a body asks only for
    what the change would do, which the audit log leaves out.

    The work writes to the audit log what was done, in the transaction of the change; `announces` is what the log says before
    work that no transaction covers. `does` says of a refused request what was not done, for bodies that differ by `says`;
    `about` names its object by fields of the path and the body.
    """

    method: str
    path: str
    right: Right
    work: Callable[[Call[P], B], Awaitable[R]]
    params: type[P]
    body: type[B]
    result: type[R]
    status: int = 200
    location: str = ""
    resumes: bool = False
    versioned: bool = False
    only_shows: Callable[[B], bool] | None = None
    does: str = ""
    says: Callable[[B], str] | None = None
    announces: str = ""
    about: Form = OF_DAG

    @property
    def creates(self) -> bool:
        """Whether it makes what its path names, if that is absent: it compares `If-None-Match: *`."""
        return self.versioned and self.method == "PUT"


class Stream(msgspec.Struct, Generic[P], frozen=True):
    """An endpoint that sends events until its client is gone. Its result in the OpenAPI document is a text."""

    path: str
    right: Right
    work: Callable[[Call[P]], Awaitable[OpenStream]]
    params: type[P]
    result: type[str] = str

    @property
    def method(self) -> str:
        return "GET"


Endpoint = Read[Any, Any] | Load[Any, Any] | Act[Any, Any, Any]


def call_of(
    request: Request, service: Service, identity: Identity, endpoint: Endpoint | Stream[Any], *, ignores_unknown: bool = False
) -> Call[Any]:
    """The call, whose right is not checked yet. Raises InvalidError for parameters of another shape."""
    params = params_of(request, endpoint.params, ignores_unknown=ignores_unknown)
    return Call(service, identity.caller, params, request_facts(request), identity.credential_id)


def check_rights(call: Call[Any], right: Right, dags: Sequence[str]) -> None:
    """Check the right to each DAG of an object that has another id, as `check_right` does."""
    for dag_id in dags:
        check_right(call, right, dag_id)


def check_right(call: Call[Any], right: Right, dag_id: str | None) -> None:
    """Raises ForbiddenError."""
    if reason := refusal(call.settings, call.caller, right, dag_id):
        raise ForbiddenError(reason)


def request_facts(request: Request) -> RequestFacts:
    headers = request.headers
    request_id = getattr(request.state, "request_id", "")
    if_match, key = (_only(headers, name) for name in ("If-Match", "Idempotency-Key"))
    if_none_match, last = map(headers.get, ("if-none-match", "last-event-id"))
    return RequestFacts(address_of(request), request_id, if_match, if_none_match, key, last_event_id=last)


def _only(headers: Headers, name: str) -> str | None:
    """Raises InvalidError for a header that has two values: one of them would be ignored."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise InvalidError(f"{name}: the request has {len(values)} of this header; send one")
    return values[0] if values else None


def params_of(request: Request, type_: type[P], *, ignores_unknown: bool = False) -> P:
    """The parameters of the path and the query. Raises InvalidError, which names the parameter.

    `ignores_unknown`: those of the query that the type lacks, as mail programs and chats add to the addresses of pages.
    """
    queried = request.query_params.multi_items()
    if ignores_unknown:
        queried = [(name, text) for name, text in queried if name in type_.__struct_encode_fields__]
    return converted(given_once([*queried, *request.path_params.items()]), type_, strict=False)


async def perform(endpoint: Endpoint, call: Call[Any], body: Any = None) -> Any:
    """The result of the endpoint, for a caller with its right."""
    if isinstance(endpoint, Read):
        database = call.service.primary if endpoint.is_fresh else call.service.reader
        return await database.run(endpoint.work, call)
    if isinstance(endpoint, Load):
        return await endpoint.work(call)
    if endpoint.announces:
        details = {"request": f"{endpoint.method} {endpoint.path}", **recorded(msgspec.to_builtins(body))}
        name = object_name(endpoint.about, **names_of(call.params, body))
        await call.database.run(audit_log.record, call.caller.username, endpoint.announces, name, details)
    return await endpoint.work(call, body)


def names_of(params: Params, body: Any) -> Mapping[str, Any]:
    """The fields of a request by which its object has a name."""
    return {**(msgspec.to_builtins(body) or {}), **msgspec.to_builtins(params)}


def _check(value: Any) -> None:
    """Raises ValueError for a text or a time within it, also a key, that no column can store. Quick: a body may have 100,000."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError(NUL)
    elif isinstance(value, date):
        in_range("the time", value if isinstance(value, datetime) else datetime.combine(value, time(), UTC))
    else:
        for part in _parts(value):
            _check(part)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.astuple(value)
    return value.items() if isinstance(value, Mapping) else ()
