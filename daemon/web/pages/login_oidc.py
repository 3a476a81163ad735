"""Login by OpenID Connect: the browser goes to the provider, and comes back with a code for the tokens of its user."""

import hmac
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tidegate.daemon.gateway.service import Service
from tidegate.daemon.identity import credentials, login_attempt
from tidegate.daemon.identity.grants import RefusedLoginError
from tidegate.daemon.identity.login_attempt import Attempt
from tidegate.daemon.identity.loopback import is_loopback
from tidegate.daemon.web.pages.login_page import begun, login_of, own_path, page, refuse
from tidegate.daemon.web.screen import Answer, guarded
from tidegate.schemas.error import UnavailableError

if TYPE_CHECKING:
    from tidegate.daemon.identity.provider import Provider

COOKIE = "tidegate_login"
PATH = "/login/oidc"
CALLBACK = f"{PATH}/callback"

LIFETIME_S = int(credentials.ATTEMPT_S)

MOST_BEGUN = 8
"""Logins that a browser has begun and not finished: each is a cookie, and the head of a request has a limit."""

STALE = "this login began in another browser, or too long ago; log in again"


def routes(service: Service) -> list[Route]:
    """None without a provider in the settings."""
    if not service.settings.oidc_issuer:
        return []
    # Its clients of HTTP and JOSE are an eighth of what a web process imports, and most processes need neither.
    from tidegate.daemon.identity.provider import Provider  # noqa: PLC0415

    provider = Provider(service.settings, service.grants)
    return [
        Route(PATH, guarded(_begin(service, provider)), methods=["GET"]),
        Route(CALLBACK, guarded(_finish(service, provider)), methods=["GET"]),
    ]


def _begin(service: Service, provider: "Provider") -> Answer:
    async def begin(request: Request) -> Response:
        attempt = login_attempt.begin(own_path(request.query_params.get("next", "/")))
        try:
            address = await provider.address(attempt, _callback(request))
        except UnavailableError as error:
            return page(request, service, attempt.next, str(error), HTTPStatus.SERVICE_UNAVAILABLE)
        response = RedirectResponse(address, HTTPStatus.SEE_OTHER)
        response.set_cookie(_cookie(request, attempt.state), attempt.encode(), max_age=LIFETIME_S, **_flags(request))
        begun_before = [name for name in request.cookies if name.startswith(_prefix(request))]
        for name in begun_before[: 1 - MOST_BEGUN]:  # a browser sends the oldest first
            response.delete_cookie(name, **_flags(request))
        return response

    return begin


def _finish(service: Service, provider: "Provider") -> Answer:
    async def finish(request: Request) -> Response:
        if request.method == "HEAD":
            return page(request, service, "/")
        response = await _answer(request, service, provider)
        response.delete_cookie(_cookie(request, _state(request)), **_flags(request))
        return response

    return finish


async def _answer(request: Request, service: Service, provider: "Provider") -> Response:
    """The session, or the page with the reason why there is none.

    Raises TooManyError: any client can invent a cookie and a code, for which this server sends its secret to the provider.
    """
    login, kept = login_of(request, "OpenID Connect"), request.cookies.get(_cookie(request, _state(request)), "")
    attempt = login_attempt.decode(kept)
    next_ = own_path(attempt.next) if attempt else "/"
    try:
        attempt, code = _checked(request, service, attempt)
        service.provider_logins.take(login.address)
        member = await provider.member(code, attempt, _callback(request))
        return begun(request, await service.database.run(credentials.complete_attempt, member, login, attempt.digest), next_)
    except RefusedLoginError as error:
        return await refuse(request, service, login, error, next_)
    except UnavailableError as error:  # the code counts once: the browser begins again, instead of loading this address again
        return page(request, service, next_, str(error), HTTPStatus.SERVICE_UNAVAILABLE)


def _checked(request: Request, service: Service, attempt: Attempt | None) -> tuple[Attempt, str]:
    """The attempt of this browser, and the code for it. Raises RefusedLoginError."""
    query = request.query_params
    if attempt is None or not hmac.compare_digest(attempt.state.encode(), _state(request).encode()):
        raise RefusedLoginError(STALE)
    if query.get("iss", service.settings.oidc_issuer) != service.settings.oidc_issuer:
        raise RefusedLoginError("another provider answered this login")
    if "code" not in query:
        why = f"{query.get('error', 'it sent no code')} {query.get('error_description', '')}".strip()
        raise RefusedLoginError(f"the provider refused the login: {why:.300}")
    return attempt, query["code"]


def _callback(request: Request) -> str:
    """Where the provider sends the browser back to. Only this machine is reached without TLS."""
    scheme = "http" if is_loopback(request.url.hostname or "") else "https"
    return f"{scheme}://{request.url.netloc}{CALLBACK}"


def _state(request: Request) -> str:
    """The login that the provider answers."""
    return request.query_params.get("state", "")


def _cookie(request: Request, state: str) -> str:
    """One for each login: a browser begins one in each of its windows, and may finish them in any order."""
    return f"{_prefix(request)}{sha256(state.encode()).hexdigest()[:16]}"


def _prefix(request: Request) -> str:
    """As the cookie of a session: one for each port."""
    return f"{COOKIE}_{request.url.port or 0}_"


def _flags(request: Request) -> dict[str, Any]:
    return {"path": PATH, "httponly": True, "samesite": "lax", "secure": not is_loopback(request.url.hostname or "")}
