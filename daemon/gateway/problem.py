"""Errors of requests: a stable type, a status, and one sentence that says what is wrong and what to do (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
import structlog

from tidegate.schemas.error import (
    FATAL,
    DagFaultError,
    Finding,
    ForbiddenError,
    NotFoundError,
    RequestError,
    StaleError,
    TidegateError,
    TooSlowError,
    UnavailableError,
    UnfitError,
    described,
)

log = structlog.get_logger()

RETRY_S = 5


class InvalidError(RequestError):
    """A parameter or a body has the wrong shape."""


class TooLargeError(RequestError):
    """The body exceeds its limit."""


class ReusedKeyError(RequestError):
    """Another request had the same Idempotency-Key."""


class SlowBodyError(RequestError):
    """The body did not come in time."""


class TooManyError(RequestError):
    """The caller sends more requests than the limit; the next one may come after `retry_s`."""

    def __init__(self, message: str, retry_s: int) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class AtWorkError(RequestError):
    """The first request with the same Idempotency-Key has no result yet: a repeat gets it later."""


class UnauthenticatedError(RequestError):
    """The request names no caller."""


class CsrfError(ForbiddenError):
    """A change by a browser came from no page of this server, or from one of an earlier session."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem document. `type` is stable; `detail` is for people and may change. `errors` name each value that does not fit."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    errors: tuple[Finding, ...] = ()


KINDS: tuple[tuple[type[Exception], str, HTTPStatus], ...] = (
    (InvalidError, "invalid", HTTPStatus.BAD_REQUEST),
    (TooLargeError, "too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (SlowBodyError, "slow-body", HTTPStatus.REQUEST_TIMEOUT),
    (UnauthenticatedError, "unauthenticated", HTTPStatus.UNAUTHORIZED),
    (CsrfError, "csrf", HTTPStatus.FORBIDDEN),
    (ForbiddenError, "forbidden", HTTPStatus.FORBIDDEN),
    (NotFoundError, "not-found", HTTPStatus.NOT_FOUND),
    (DagFaultError, "refused", HTTPStatus.CONFLICT),
    (StaleError, "stale", HTTPStatus.PRECONDITION_FAILED),
    (ReusedKeyError, "reused-key", HTTPStatus.UNPROCESSABLE_ENTITY),
    (UnfitError, "unfit", HTTPStatus.UNPROCESSABLE_ENTITY),
    (TooManyError, "too-many", HTTPStatus.TOO_MANY_REQUESTS),
    (RequestError, "refused", HTTPStatus.CONFLICT),
    (TooSlowError, "too-slow", HTTPStatus.SERVICE_UNAVAILABLE),
    (UnavailableError, "unavailable", HTTPStatus.SERVICE_UNAVAILABLE),
    (TidegateError, "failed", HTTPStatus.INTERNAL_SERVER_ERROR),
)
"""The type and the status of each error: the first that matches."""

UNEXPECTED = "the request failed by a fault of this server; its log names the fault"


def retry_of(error: Exception) -> Mapping[str, str]:
    """The header that says when to repeat the request, if that makes sense."""
    match error:
        case TooManyError(retry_s=retry_s):
            return {"retry-after": str(retry_s)}
        case UnavailableError() | AtWorkError():
            return {"retry-after": str(RETRY_S)}
        case _:
            return {}


def type_of(name: str) -> str:
    return f"urn:tidegate:problem:{name}"


def problem(name: str, status: HTTPStatus, detail: str, instance: str | None = None, errors: tuple[Finding, ...] = ()) -> Problem:
    return Problem(type=type_of(name), title=status.phrase, status=status, detail=detail, instance=instance, errors=errors)


def problem_of(error: Exception, path: str) -> Problem:
    """The problem that an error is for the caller. A fault of the server is logged. Raises the errors of `FATAL`."""
    if isinstance(error, FATAL):
        raise error
    for kind, name, status in KINDS:
        if isinstance(error, kind):
            return problem(name, status, str(error), path, error.findings if isinstance(error, UnfitError) else ())
    log.error("request_failed", path=path, error=described(error), exc_info=error)
    return problem("internal", HTTPStatus.INTERNAL_SERVER_ERROR, UNEXPECTED, path)
