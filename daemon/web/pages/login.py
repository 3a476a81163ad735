"""Login and logout: a token, a one-time link or a proxy begins the session of a browser."""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tidegate.daemon.audit_entry import record_refusal
from tidegate.daemon.gateway.authenticate import Identity, check_csrf, check_site, cookie_name, identify, token_of
from tidegate.daemon.gateway.problem import CsrfError
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.identity import credentials
from tidegate.daemon.identity.credentials import Login, Session, Way
from tidegate.daemon.identity.grants import RefusedLoginError
from tidegate.daemon.web.pages import login_oidc
from tidegate.daemon.web.pages.login_page import ENDED, begun, login_of, own_path, page, refuse
from tidegate.daemon.web.rendering import url
from tidegate.daemon.web.screen import Answer, form_of, guarded
from tidegate.schemas.effect.audit import OF_SESSION, object_name

REASONS: Mapping[Way, str] = {
    "link": "this link was used before, or has expired; log in with a token, or let `tidegate standalone link` print another one",
    "token": "the token is unknown, expired or revoked; `tidegate tokens create` makes one",
}

FORWARDED = "each request has an Authorization header, which pages read instead of a session; the proxy must remove it"


def routes(service: Service) -> list[Route]:
    return [
        Route("/login", guarded(_show(service)), methods=["GET"]),
        Route("/login", guarded(_log_in(service)), methods=["POST"]),
        Route("/logout", guarded(_log_out(service)), methods=["POST"]),
        *login_oidc.routes(service),
    ]


def _show(service: Service) -> Answer:
    async def show(request: Request) -> Response:
        link, next_ = request.query_params.get("link"), own_path(request.query_params.get("next", "/"))
        if request.method == "HEAD":  # a scanner of links looks at them before their reader does
            return page(request, service, next_)
        if link is None:
            return await _by_proxy(request, service, next_)
        login = login_of(request, "link")
        return await _answer(request, service, login, next_, await service.database.run(credentials.redeem_link, link, login))

    return show


async def _by_proxy(request: Request, service: Service, next_: str) -> Response:
    """The session of the user that a proxy names; without one the page. Raises TooManyError: the browser may keep no cookie."""
    login = login_of(request, "proxy")
    try:
        member = service.proxy.member(login.address, request.headers) if service.proxy else None
    except RefusedLoginError as error:
        return await refuse(request, service, login, error, next_)
    if member is None or ENDED in request.query_params:
        return page(request, service, next_)
    service.limit.take(member.caller.username)
    if token_of(request, service) is not None:  # a page would ignore the session, and lead here again
        return page(request, service, next_, FORWARDED, HTTPStatus.FORBIDDEN)
    begin = partial(credentials.begin_session, groups=member.groups)
    return begun(request, await service.database.run(begin, member.caller, login), next_)


def _log_in(service: Service) -> Answer:
    async def log_in(request: Request) -> Response:
        check_site(request)
        fields = await form_of(request)
        next_, login = own_path(fields.get("next", "/")), login_of(request, "token")
        token = fields.get("token", "").strip()
        return await _answer(request, service, login, next_, await service.database.run(credentials.redeem_token, token, login))

    return log_in


async def _answer(request: Request, service: Service, login: Login, next_: str, secret: str | None) -> Response:
    """The session that a secret began, or the page with the reason why it began none."""
    if secret is None:
        return await refuse(request, service, login, RefusedLoginError(REASONS[login.way]), next_, HTTPStatus.UNAUTHORIZED)
    return begun(request, secret, next_)


def _log_out(service: Service) -> Answer:
    async def log_out(request: Request) -> Response:
        response = RedirectResponse(url("login", **{ENDED: "true"}), HTTPStatus.SEE_OTHER)
        identity = await identify(request, service)
        if identity is not None and identity.session is not None:
            await _end(request, service, identity, identity.session)
        response.delete_cookie(cookie_name(request))
        return response

    return log_out


async def _end(request: Request, service: Service, identity: Identity, session: Session) -> None:
    """Raises CsrfError for a logout by another site, which is recorded."""
    login = login_of(request, "session")
    try:
        check_csrf(request, identity, (await form_of(request)).get("csrf", ""))
    except CsrfError as error:
        name, details = (
            object_name(OF_SESSION, id=session.id),
            {**login.details, "would_have": "logged out", "reason": str(error)},
        )
        await record_refusal(service.database, identity.caller.username, name, details)
        raise
    await service.database.run(credentials.end_session, session, login)
