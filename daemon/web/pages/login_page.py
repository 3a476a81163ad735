"""What all ways to log in share: the page, what it says of a refusal, and the session that a browser gets."""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tidegate.daemon.gateway.authenticate import set_cookie
from tidegate.daemon.gateway.endpoint import request_facts
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.identity import credentials
from tidegate.daemon.identity.credentials import Login, Way
from tidegate.daemon.identity.grants import NoRoleError, RefusedLoginError
from tidegate.daemon.terminal import printable
from tidegate.daemon.web.rendering import render
from tidegate.daemon.web.screen import LOST, context

LONGEST_PATH = 2000
"""A longer address would not fit into the cookie of a login."""

ENDED = "ended"
"""The parameter of the page after a logout: a proxy that names the user does not begin the next session at once."""


def own_path(text: str) -> str:
    """A path of this server that a browser gets back to; `/` for any other address."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_own and len(text) <= LONGEST_PATH else "/"


def login_of(request: Request, way: Way) -> Login:
    """A login by a request, for the audit log."""
    facts = request_facts(request)
    return Login(way, facts.address, facts.request_id)


def page(request: Request, service: Service, next_: str, problem: str = "", status: HTTPStatus = HTTPStatus.OK) -> Response:
    has_oidc, notice = bool(service.settings.oidc_issuer), _notice(request.query_params)
    frame = context(request, service, None)
    return render("login.html", status, next=next_, problem=problem, has_oidc=has_oidc, notice=notice, **frame)


def _notice(params: Mapping[str, str]) -> str:
    notices = {ENDED: "You are logged out.", LOST: "Your session has ended: log in again."}
    return next((notice for name, notice in notices.items() if name in params), "")


async def refuse(
    request: Request,
    service: Service,
    login: Login,
    error: RefusedLoginError,
    next_: str,
    status: HTTPStatus = HTTPStatus.FORBIDDEN,
) -> Response:
    """The page with the reason, which the audit log gets, too. Raises TooManyError for too many failed logins."""
    service.failed_logins.take(_limited(login, error))
    reason = printable(str(error))  # parts of it are from outside, and Postgres stores no NUL
    await service.database.run(credentials.record_refusal, login, error, reason)
    return page(request, service, next_, reason, status)


def _limited(login: Login, error: RefusedLoginError) -> str:
    """The name under which a failed login counts: its address, or the user if it has no role.

    The refusal of a user without a role ends its sessions. Failed logins of others from the same address must not prevent that.
    """
    return f"user {error.username}" if isinstance(error, NoRoleError) else login.address


def begun(request: Request, secret: str, next_: str) -> Response:
    response = RedirectResponse(next_, HTTPStatus.SEE_OTHER)
    set_cookie(request, response, secret)
    return response
