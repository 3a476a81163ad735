"""Finds the caller of a request: by a bearer token, or by the session cookie of a browser."""

from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tidegate.daemon.gateway.problem import CsrfError, UnauthenticatedError
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.identity import credentials
from tidegate.daemon.identity.credentials import SESSION_S, Session
from tidegate.daemon.identity.loopback import is_loopback
from tidegate.daemon.identity.secret import csrf_token, is_csrf_token
from tidegate.daemon.permissions import Caller

COOKIE = "tidegate_session"
CSRF_HEADER = "x-csrf-token"
HOW = "send a valid one as `Authorization: Bearer …`"
OWN_SITE = ("same-origin", "none")
STALE_FORM = "the form is of an earlier session, or of another site; load the page again, and repeat the change"


class Identity(msgspec.Struct, frozen=True):
    """The caller of a request, and the id of its credential. `session` is that of a browser, whose changes need a CSRF token."""

    caller: Caller
    credential_id: int
    session: Session | None = None

    @property
    def csrf(self) -> str:
        """The token for the forms of a page."""
        return csrf_token(self.session.secret) if self.session else ""


async def identify(request: Request, service: Service) -> Identity | None:
    """The caller; None without a token and without a session.

    Raises UnauthenticatedError for a token that is not valid, TooManyError for too many of these from an address, and
    RefusedLoginError for a user that no proxy may name.
    """
    token = token_of(request, service)
    if token is not None:
        return await _by_token(service, token, address_of(request))
    secret = request.cookies.get(cookie_name(request))
    found = await service.identities.autocommit(credentials.find, "session", secret) if secret else None
    session = None if found is None else found.at_present(service.grants)
    if session is None or not _is_current(request, service, session.caller):
        return None
    return Identity(session.caller, session.id, session)


def token_of(request: Request, service: Service) -> str | None:
    """The token that names the caller; empty for credentials that are none. None: the request has no credentials.

    A proxy that names the user may have asked the browser for a password, and pass that on.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    is_of_proxy = service.proxy is not None and service.proxy.trusts(address_of(request))
    return None if is_of_proxy or not scheme else ""


def _is_current(request: Request, service: Service, caller: Caller) -> bool:
    """A proxy that names another user, or this one with other rights, ends the use of a session."""
    named = service.proxy.member(address_of(request), request.headers) if service.proxy else None
    return named is None or named.caller == caller


def address_of(request: Request) -> str:
    """The address of the connection: a client writes other ones into headers as it likes."""
    return request.client.host if request.client else ""


async def _by_token(service: Service, token: str, address: str) -> Identity:
    found = await service.identities.autocommit(credentials.find, "token", token)
    if found is None:
        service.failed_tokens.take(address)
        raise UnauthenticatedError(f"the token is unknown, expired or revoked; {HOW}")
    return Identity(found.caller, found.id)


async def require(request: Request, service: Service) -> Identity:
    """The caller, whose request is counted. Raises UnauthenticatedError, and TooManyError for one that sends too many."""
    identity = await identify(request, service)
    if identity is None:
        raise UnauthenticatedError(f"the request has no token; {HOW}")
    service.limit.take(identity.caller.username)
    return identity


def check_csrf(request: Request, identity: Identity, given: str) -> None:
    """Raises CsrfError for a change by a browser without the token of its session. Programs with a bearer token need none."""
    if identity.session and not is_csrf_token(identity.session.secret, given or request.headers.get(CSRF_HEADER, "")):
        raise CsrfError(STALE_FORM)


def check_site(request: Request) -> None:
    """Raises CsrfError for a login that a page of another site sent. Over plain HTTP only `Origin` names the site."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    is_own = site in OWN_SITE if site is not None else origin is None or _host_of(origin) == request.url.hostname
    if not is_own:
        raise CsrfError("another site sent this login; open the login page of this server")


def _host_of(origin: str) -> str | None:
    """None for the origin of a page that hides its site, and for a text that is no address."""
    try:
        return urlsplit(origin).hostname
    except ValueError:
        return None


def cookie_name(request: Request) -> str:
    """Browsers share the cookies of a host between its ports; two installations on one machine must not."""
    return f"{COOKIE}_{request.url.port or 0}"


def set_cookie(request: Request, response: Response, secret: str) -> None:
    """Give the browser its session."""
    response.set_cookie(
        cookie_name(request),
        secret,
        max_age=int(SESSION_S),
        httponly=True,
        samesite="lax",
        secure=not is_loopback(request.url.hostname or ""),
    )
