"""Commands over the API of `tidegate web`, so that users need a token and no password of the database. Slow to import: httpx."""

import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import httpx
import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.daemon.gateway.commands import with_commands
from tidegate.daemon.settings import PREFIX, Settings, SettingsError
from tidegate.schemas.error import Finding, ForbiddenError, NotFoundError, RequestError, UnavailableError, UnfitError, sentence_of
from tidegate.schemas.text import utc

T = TypeVar("T")
P = TypeVar("P", bound="Part")

TIMEOUT_S = 75.0
"""A request waits for a run for up to a minute."""

API = "/api/v1"
PAGE = 500
_HINT = "is it the address of a `tidegate web` of this version?"
_TOKEN = re.compile(r"[\x21-\x7e]+")
POLL_S = 1.0
LONGEST_WAIT_S = 60

REPEATS = 20
"""Of a change that is at work: a server says so for some 90 s, and asks for a pause of 5 s each time."""

REPEAT_S = 5.0
"""The least pause between them."""

LASTING = (HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.NOT_IMPLEMENTED)
"""A repeat meets these faults again; the others are of a server that is away, or of a proxy that has waited for it."""


class BusyError(UnavailableError):
    """The server answered that it does not do the request now; a repeat makes sense in `retry_s`."""

    def __init__(self, message: str, retry_s: float) -> None:
        super().__init__(message, server="the server")
        self.retry_s = retry_s


class BrokenError(BusyError):
    """The connection broke, or a proxy or the server gave up before the answer: the request may have been done, or may be yet."""


class UnsentError(BrokenError):
    """No connection: the request was not sent."""


class Page(msgspec.Struct, frozen=True):
    """A page of a list."""

    items: list[msgspec.Raw]
    next_cursor: str | None = None


class Part(Protocol):
    """A part of an answer; the cursor asks for the next one."""

    @property
    def next_cursor(self) -> str | None: ...


class Remote:
    """The API of a server. Errors of requests are those of the local functions, with the same exit codes."""

    def __init__(self, settings: Settings) -> None:
        if not settings.token:
            raise SettingsError(f"{PREFIX}TOKEN is not set; `tidegate tokens create` makes a token for {settings.server}")
        if not _TOKEN.fullmatch(settings.token):
            raise SettingsError(f"{PREFIX}TOKEN is no token: it has a space, a line break or a letter that no token has")
        self._server = _checked(settings.server.rstrip("/").removesuffix(API))
        self._headers = {"authorization": f"Bearer {settings.token}"}

    def rows(self, path: str, row: type[T], limit: int | None, params: Mapping[str, Any], *, is_patient: bool = False) -> list[T]:
        """The first rows of a list, or all. `is_patient`: read as by `patient`."""
        read = self.patient if is_patient else self.read
        found: list[T] = []
        cursor: str | None = None
        cursors: set[str] = set()
        while True:
            asked = {**params, "limit": PAGE if limit is None else min(limit - len(found), PAGE), "cursor": cursor}
            page = read(path, Page, asked)
            found += [self._decoded(item, row) for item in page.items]
            cursor = page.next_cursor
            if cursor is None or len(found) == limit:
                return found
            self._check_cursor(path, cursor, cursors)

    def parts(self, path: str, type_: type[P], params: Mapping[str, Any]) -> Iterator[P]:
        """An answer in parts, as the server gives them."""
        cursors: set[str] = set()
        part = self.read(path, type_, params)
        yield part
        while part.next_cursor is not None:
            self._check_cursor(path, part.next_cursor, cursors)
            part = self.read(path, type_, {**params, "cursor": part.next_cursor})
            yield part

    def _check_cursor(self, path: str, cursor: str, known: set[str]) -> None:
        """Raises RequestError for one of the `known` cursors."""
        if cursor in known:
            raise RequestError(f"{self._server} gave a cursor of {path} twice: the list has no end; {_HINT}")
        known.add(cursor)

    def read(self, path: str, type_: type[T], params: Mapping[str, Any] | None = None) -> T:
        return self._decoded(self._send("GET", path, params or {}), type_)

    def change(self, method: str, path: str, type_: type[T], body: Mapping[str, Any], params: Mapping[str, Any]) -> T:
        """A change. It is sent again with the same key if the connection or the server breaks, so that it is done once."""
        request = method, path, params, body, uuid4().hex
        try:
            content = self._sent(*request)
        except UnsentError:
            raise
        except BrokenError as error:
            _wait(error)
            content = self._repeated(error, *request)
        return self._decoded(content, type_)

    def _sent(self, *request: Any) -> bytes:
        """The answer. A server that cannot be reached is asked once more."""
        try:
            return self._send(*request)
        except UnsentError as error:
            _wait(error)
            return self._send(*request)

    def _repeated(self, broken: BrokenError, *request: Any) -> bytes:
        """The answer, once the server is back, and the first request no more at work. Else BrokenError: it may have been done."""
        for _ in range(REPEATS):
            try:
                return self._send(*request)
            except (ForbiddenError, NotFoundError):
                raise  # the answer to the first request, which has ended
            except BusyError as error:
                last: Exception = error
                if isinstance(error, BrokenError) and not isinstance(error, UnsentError):
                    break
                time.sleep(max(error.retry_s, REPEAT_S))
            except RequestError as refusal:
                last = refusal
                break
        raise BrokenError(f"{broken}; it may have been done: look before you give the command again (sent again: {last})", POLL_S)

    def polled(self, path: str, type_: type[T], params: Mapping[str, Any] | None = None) -> T:
        """As `patient`, after a moment."""
        time.sleep(POLL_S)
        return self.patient(path, type_, params)

    def patient(self, path: str, type_: type[T], params: Mapping[str, Any] | None = None) -> T:
        """As `read`, as soon as the server is available."""
        away = False
        while True:
            try:
                return self.read(path, type_, params)
            except BusyError as error:
                _wait(error, is_silent=away)
                away = True

    def _decoded(self, content: bytes | msgspec.Raw, type_: type[T]) -> T:
        """Raises RequestError for an answer of something else, such as the login page of a proxy."""
        try:
            return msgspec.json.decode(content, type=type_)
        except msgspec.DecodeError as error:
            raise RequestError(f"{self._server} gave an answer that cannot be read ({error}); {_HINT}") from error

    def _send(
        self, method: str, path: str, params: Mapping[str, Any], body: Mapping[str, Any] | None = None, key: str | None = None
    ) -> bytes:
        query = {name: value for name, value in msgspec.to_builtins(dict(params)).items() if value is not None}
        headers = self._headers if key is None else {**self._headers, "idempotency-key": key}
        content = None if body is None else msgspec.json.encode(body)
        url = f"{self._server}{API}{_named(path)}"
        try:
            answer = httpx.request(method, url, params=query, content=content, headers=headers, timeout=TIMEOUT_S)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise _no_address(self._server) from error
        except httpx.HTTPError as error:
            broken = UnsentError if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) else BrokenError
            raise broken(f"{self._server} does not answer: {error}", POLL_S) from error
        if answer.is_success:
            return answer.content
        raise problem_of(answer)


def _wait(error: BusyError, *, is_silent: bool = False) -> None:
    if not is_silent:
        output.say(f"{utc(datetime.now(UTC))}  waiting for the server ({error})")
    time.sleep(error.retry_s)


def _named(path: str) -> str:
    """The path. Raises RequestError for one with an empty part or a dot segment, which would be that of something else."""
    parts = path.split("/")[1:]
    if "" in parts:
        raise RequestError("an argument of the command is empty; is a variable of the shell not set?")
    if dots := {".", ".."}.intersection(parts):
        raise RequestError(f"{dots.pop()!r} is no name")
    return path


def _checked(server: str) -> str:
    """The address. Raises SettingsError for a host name that cannot be looked up."""
    try:
        httpx.URL(server).host.encode("idna")
    except (httpx.InvalidURL, UnicodeError) as error:
        raise _no_address(server) from error
    return server


def _no_address(server: str) -> SettingsError:
    return SettingsError(f"{PREFIX}SERVER is {server!r}, but must be like https://tidegate.example")


def problem_of(answer: httpx.Response) -> RequestError | UnavailableError:
    """The error that an answer is."""
    detail = _detail(answer)
    if answer.status_code == HTTPStatus.NOT_FOUND:
        return NotFoundError(detail)
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        return ForbiddenError(f"{detail}; set {PREFIX}TOKEN: `tidegate tokens create` makes a token")
    if answer.status_code == HTTPStatus.FORBIDDEN:
        return ForbiddenError(detail)
    if answer.is_server_error and answer.status_code not in LASTING:
        return BrokenError(detail, _retry_s(answer))
    is_at_work = answer.status_code == HTTPStatus.CONFLICT and "retry-after" in answer.headers
    if is_at_work or answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        return BusyError(detail, _retry_s(answer))
    if findings := _findings(answer):
        return UnfitError(detail.removesuffix(f": {sentence_of(findings)}"), findings)
    return RequestError(detail)


def _findings(answer: httpx.Response) -> list[Finding]:
    try:
        return msgspec.convert(msgspec.json.decode(answer.content)["errors"], list[Finding])
    except (msgspec.DecodeError, KeyError, TypeError):
        return []


def _retry_s(answer: httpx.Response) -> float:
    """The seconds of Retry-After, at most a minute; a proxy may send a date instead."""
    given = answer.headers.get("retry-after", "")
    wanted_s = int(given) if re.fullmatch(r"[0-9]{1,9}", given) else 0
    return min(max(wanted_s, POLL_S), LONGEST_WAIT_S)


def _detail(answer: httpx.Response) -> str:
    try:
        return with_commands(str(msgspec.json.decode(answer.content)["detail"]))
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"{answer.url.host} answered {answer.status_code} {answer.reason_phrase}; {_HINT}"
