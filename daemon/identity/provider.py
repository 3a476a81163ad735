"""The provider of OpenID Connect: where it is found, where a login begins, and the user that a code stands for."""

import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import anyio
import httpx
import msgspec
import structlog

from tidegate.daemon.fault_log import LoggedStates
from tidegate.daemon.identity.grants import Grants, Member, RefusedLoginError, member_of
from tidegate.daemon.identity.id_token import EMAIL, VERIFIED, Expected, claim, groups_in, username_in, verified
from tidegate.daemon.identity.login_attempt import Attempt
from tidegate.daemon.identity.login_settings import client_secret
from tidegate.daemon.settings import Settings, SettingsError
from tidegate.schemas.error import UnavailableError, described

log = structlog.get_logger()

SERVER = "the login provider"

TIMEOUT_S = 10.0
KNOWN_S = 300.0
"""The addresses of the provider are read again after this time. Its keys are read at each login: they may change at any time."""

WELL_KNOWN = "/.well-known/openid-configuration"

T = TypeVar("T")


class Metadata(msgspec.Struct, frozen=True):
    """The addresses of the provider."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Tokens(msgspec.Struct, frozen=True):
    """The tokens that the provider gives for a code. A server of OAuth 2.0 alone gives no `id_token`."""

    id_token: str = ""
    access_token: str = ""


class Keys(msgspec.Struct, frozen=True):
    """The public keys of the provider."""

    keys: list[dict[str, Any]]


class Refusal(msgspec.Struct, frozen=True):
    """Why the provider gives no tokens."""

    error: str
    error_description: str = ""


class Provider:
    """The provider that the settings name. Raises UnavailableError from each method while it is away or answers nonsense."""

    def __init__(self, settings: Settings, grants: Grants) -> None:
        self._settings = settings
        self._grants = grants
        self._outages = LoggedStates()
        self._metadata: Metadata | None = None
        self._read_at = 0.0

    async def address(self, attempt: Attempt, redirect: str) -> str:
        """Where the browser logs in; the provider sends it to `redirect` then."""
        with self._told():
            metadata = await self._found()
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": redirect,
            "scope": self._settings.oidc_scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        separator = "&" if "?" in metadata.authorization_endpoint else "?"
        return f"{metadata.authorization_endpoint}{separator}{urlencode(query)}"

    async def member(self, code: str, attempt: Attempt, redirect: str) -> Member:
        """The user whose login the code stands for, with the rights of its groups. Raises RefusedLoginError."""
        settings = self._settings
        with self._told():
            claims = await self._claims(code, attempt, redirect)
        self._outages.begun(SERVER, [])
        username = username_in(claims, settings.oidc_username_claim)
        return member_of(self._grants, username, groups_in(claims, settings.oidc_groups_claim))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """The log says that the provider is away, and why, until it has answered all requests of a login."""
        try:
            yield
        except UnavailableError as error:
            if error.server == SERVER and self._outages.begun(SERVER, [str(error)]):
                log.warning("oidc_provider_away", error=str(error))
            raise

    async def _claims(self, code: str, attempt: Attempt, redirect: str) -> Mapping[str, Any]:
        """What the provider says about the user. Raises RefusedLoginError."""
        metadata = await self._found()
        async with self._client() as client:
            tokens = await self._tokens(client, metadata, code, attempt, redirect)
            keys = _decoded(await _request(client, "GET", metadata.jwks_uri), Keys)
            expected = Expected(metadata.issuer, self._settings.oidc_client_id, attempt.nonce)
            return await self._completed(client, metadata, tokens, verified(tokens.id_token, keys.keys, expected))

    async def _found(self) -> Metadata:
        if self._metadata is None or time.monotonic() - self._read_at > KNOWN_S:
            self._metadata, self._read_at = await self._read(), time.monotonic()
        return self._metadata

    async def _read(self) -> Metadata:
        issuer = self._settings.oidc_issuer
        async with self._client() as client:
            metadata = _decoded(await _request(client, "GET", issuer.rstrip("/") + WELL_KNOWN), Metadata)
        if metadata.issuer != issuer:
            raise _away(issuer, f"it calls itself {metadata.issuer!r:.200}; set TIDEGATE_OIDC_ISSUER to exactly that")
        return metadata

    async def _tokens(self, client: httpx.AsyncClient, metadata: Metadata, code: str, attempt: Attempt, redirect: str) -> Tokens:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": attempt.verifier}
        options = _credentials(self._settings, metadata, form)
        answer = await _request(client, "POST", metadata.token_endpoint, **options)
        if answer.status_code == HTTPStatus.OK:
            return _with_id(_decoded(answer, Tokens))
        refusal = _decoded(answer, Refusal)
        raise RefusedLoginError(f"the provider gave no token: {refusal.error} {refusal.error_description}".strip())

    async def _completed(
        self, client: httpx.AsyncClient, metadata: Metadata, tokens: Tokens, claims: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Some providers tell names and groups by their userinfo endpoint only."""
        name = self._settings.oidc_username_claim
        wanted = (name, self._settings.oidc_groups_claim, *([VERIFIED] if name == EMAIL else []))
        address = metadata.userinfo_endpoint
        if address is None or not tokens.access_token or all(claim(claims, one) is not None for one in wanted):
            return claims
        headers = {"authorization": f"Bearer {tokens.access_token}"}
        more = _decoded(await _request(client, "GET", address, headers=headers), dict[str, Any])
        if more.get("sub") != claims["sub"]:
            raise RefusedLoginError("the userinfo endpoint of the provider answered for another user")
        return {**more, **claims}

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """All certificate authorities: to read them takes tens of milliseconds, in which no page is served."""
        return httpx.create_ssl_context()

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(verify=self._tls, timeout=TIMEOUT_S, follow_redirects=False)


def _credentials(settings: Settings, metadata: Metadata, form: Mapping[str, str]) -> dict[str, Any]:
    """How this program proves to the provider that it is the client. Without a secret, PKCE alone protects the code."""
    client_id, secret = settings.oidc_client_id, _secret(settings)
    if not secret:
        return {"data": {**form, "client_id": client_id}}
    if "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
        return {"data": form, "auth": (quote(client_id, safe=""), quote(secret, safe=""))}
    return {"data": {**form, "client_id": client_id, "client_secret": secret}}


def _with_id(tokens: Tokens) -> Tokens:
    if not tokens.id_token:
        raise RefusedLoginError("the provider gave no id_token: it must speak OpenID Connect and allow Tidegate the scope openid")
    return tokens


def _secret(settings: Settings) -> str:
    """The text of the error names a file of this host: it is for the log, and not for the page of an unknown user."""
    try:
        return client_secret(settings)
    except SettingsError as error:
        log.warning("oidc_client_secret_unreadable", error=str(error))
        raise UnavailableError(f"the secret for {SERVER} cannot be read; the log of this server names the fault") from error


async def _request(client: httpx.AsyncClient, method: str, address: str, **options: Any) -> httpx.Response:
    """The answer, unless it says that the provider is away."""
    try:
        with anyio.fail_after(TIMEOUT_S):
            answer = await client.request(method, address, **options)
    except (httpx.TimeoutException, TimeoutError) as error:
        raise _away(address, f"it has not answered within {TIMEOUT_S:g} seconds") from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise _away(address, described(error)) from error
    refuses = method == "POST" and HTTPStatus.BAD_REQUEST <= answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
    if answer.status_code != HTTPStatus.OK and not refuses:
        raise _away(address, f"it answered with status {answer.status_code}")
    return answer


def _decoded(answer: httpx.Response, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.content, type=type_)
    except ValueError as error:
        raise _away(str(answer.request.url), f"its answer cannot be read: {error}") from error


def _away(address: str, why: str) -> UnavailableError:
    return UnavailableError(f"{SERVER} is not available at {_host(address)}: {why}", server=SERVER)


def _host(address: str) -> str:
    """The provider itself names some of its addresses: one may be malformed."""
    try:
        return httpx.URL(address).netloc.decode() or address
    except httpx.InvalidURL:
        return f"{address!r:.200}"
