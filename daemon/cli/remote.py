"""Commands over the API of `tidegate web`, so that users need a token and no password of the database. Slow to import: httpx."""

import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import msgspec

from tidegate.daemon.read_model.run import RunPage
from tidegate.daemon.settings import PREFIX, Settings, SettingsError
from tidegate.schemas.error import ForbiddenError, NotFoundError, RequestError, UnavailableError
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import RUN_ENDED

T = TypeVar("T")

TIMEOUT_S = 75.0
"""A request waits for a run for up to a minute."""

PAGE = 500
_HINT = "is it the address of a `tidegate web` of this version?"
_TOKEN = re.compile(r"[\x21-\x7e]+")
POLL_S = 1.0


class Page(msgspec.Struct, frozen=True):
    """A page of a list."""

    items: list[msgspec.Raw]
    next_cursor: str | None = None


class Remote:
    """The API of a server. Errors of requests are those of the local functions, with the same exit codes."""

    def __init__(self, settings: Settings) -> None:
        if not settings.token:
            raise SettingsError(f"{PREFIX}TOKEN is not set; `tidegate tokens create` makes a token for {settings.server}")
        if not _TOKEN.fullmatch(settings.token):
            raise SettingsError(f"{PREFIX}TOKEN is no token: it has a space, a line break or a letter that no token has")
        self._server = _checked(settings.server.rstrip("/"))
        self._headers = {"authorization": f"Bearer {settings.token}"}

    def rows(self, path: str, row: type[T], limit: int | None, params: Mapping[str, Any]) -> list[T]:
        """The first rows of a list, or all."""
        found: list[T] = []
        cursor: str | None = None
        cursors: set[str] = set()
        while True:
            asked = {**params, "limit": PAGE if limit is None else min(limit - len(found), PAGE), "cursor": cursor}
            page = self._decoded(self._send("GET", path, asked), Page)
            found += [self._decoded(item, row) for item in page.items]
            cursor = page.next_cursor
            if cursor is None or len(found) == limit:
                return found
            if cursor in cursors:
                raise RequestError(f"{self._server} gave a cursor of {path} twice: the list has no end; {_HINT}")
            cursors.add(cursor)

    def read(self, path: str, type_: type[T], params: Mapping[str, Any] | None = None) -> T:
        return self._decoded(self._send("GET", path, params or {}), type_)

    def change(self, method: str, path: str, type_: type[T], body: Mapping[str, Any], params: Mapping[str, Any]) -> T:
        """A change. It is sent again with the same key if the connection breaks, so that it is done once."""
        try:
            content = self._send(method, path, params, body, key := uuid4().hex)
        except UnavailableError:
            content = self._send(method, path, params, body, key)
        return self._decoded(content, type_)

    def ended(self, path: str) -> RunRow:
        """A run at this path, after its end."""
        while (run := self.read(path, RunPage).run).state not in RUN_ENDED:
            time.sleep(POLL_S)
        return run

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
        url = f"{self._server}/api/v1{path}"
        try:
            answer = httpx.request(method, url, params=query, content=content, headers=headers, timeout=TIMEOUT_S)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise _no_address(self._server) from error
        except httpx.HTTPError as error:
            raise UnavailableError(f"{self._server} does not answer: {error}", server="the server") from error
        if answer.is_success:
            return answer.content
        raise problem_of(answer)


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
    if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return ForbiddenError(detail)
    if answer.is_server_error:
        return UnavailableError(detail, server="the server")
    return RequestError(detail)


def _detail(answer: httpx.Response) -> str:
    try:
        return str(msgspec.json.decode(answer.content)["detail"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"{answer.url.host} answered {answer.status_code} {answer.reason_phrase}; {_HINT}"
