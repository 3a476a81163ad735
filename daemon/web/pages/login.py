"""Login and logout: a token or a one-time link begins the session of a browser."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tidegate.daemon.gateway.authenticate import check_csrf, cookie_name, identify, set_cookie
from tidegate.daemon.gateway.problem import CsrfError
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.identity import credentials
from tidegate.daemon.web.rendering import render
from tidegate.daemon.web.screen import Answer, context, form_of, guarded
from tidegate.schemas.queries.credentials import remove

USED = "this link was used before, or has expired; log in with a token, or restart the server that printed it"
UNKNOWN = "the token is unknown, expired or revoked; `tidegate tokens create` makes one"


def routes(service: Service) -> list[Route]:
    return [
        Route("/login", guarded(_show(service)), methods=["GET"]),
        Route("/login", guarded(_log_in(service)), methods=["POST"]),
        Route("/logout", guarded(_log_out(service)), methods=["POST"]),
    ]


def own_path(text: str) -> str:
    """A path of this server that a browser gets back to; `/` for any other address."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_own else "/"


def _show(service: Service) -> Answer:
    async def show(request: Request) -> Response:
        link, next_ = request.query_params.get("link"), own_path(request.query_params.get("next", "/"))
        if link is None:
            return _page(request, service, next_)
        secret = await service.database.run(credentials.redeem_link, link)
        return _page(request, service, next_, USED) if secret is None else _begun(request, secret, next_)

    return show


def _log_in(service: Service) -> Answer:
    async def log_in(request: Request) -> Response:
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise CsrfError("another site sent this login; open the login page of this server")
        fields = await form_of(request)
        next_ = own_path(fields.get("next", "/"))
        secret = await service.database.run(credentials.begin_session, fields.get("token", "").strip())
        return _page(request, service, next_, UNKNOWN) if secret is None else _begun(request, secret, next_)

    return log_in


def _log_out(service: Service) -> Answer:
    async def log_out(request: Request) -> Response:
        response = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        identity = await identify(request, service)
        if identity is not None and identity.session is not None:
            check_csrf(request, identity, (await form_of(request)).get("csrf", ""))
            await service.database.run(remove, identity.session.id)
        response.delete_cookie(cookie_name(request))
        return response

    return log_out


def _page(request: Request, service: Service, next_: str, problem: str = "") -> Response:
    status = HTTPStatus.UNAUTHORIZED if problem else HTTPStatus.OK
    return render("login.html", status, next=next_, problem=problem, **context(request, service, None))


def _begun(request: Request, secret: str, next_: str) -> Response:
    response = RedirectResponse(next_, HTTPStatus.SEE_OTHER)
    set_cookie(request, response, secret)
    return response
