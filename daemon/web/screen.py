"""The declaration of a page or a form, and its answer to a browser."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tidegate.daemon.gateway.authenticate import Identity, check_csrf, cookie_name, require
from tidegate.daemon.gateway.conversion import converted
from tidegate.daemon.gateway.endpoint import Act, B, Call, Load, P, Params, Read, RequestFacts, call_of, perform
from tidegate.daemon.gateway.json_input import NUL
from tidegate.daemon.gateway.problem import InvalidError, Problem, UnauthenticatedError, problem_of, retry_of
from tidegate.daemon.gateway.refusals import Attempt, recording_refusals
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.live.hub import Hub
from tidegate.daemon.permissions import Caller, Right, Role, refusal
from tidegate.daemon.read_model.lookup import NEWEST_RUN
from tidegate.daemon.web.command_links import links_to_pages
from tidegate.daemon.web.form import Preview, RejectedFormError, preview_of, with_rejection
from tidegate.daemon.web.links import links_of
from tidegate.daemon.web.navigation import navigation_of
from tidegate.daemon.web.rendering import render, url
from tidegate.schemas.effect.audit import OF_DAG
from tidegate.schemas.effect.audit import Form as Name
from tidegate.schemas.error import FATAL, ForbiddenError, NotFoundError, RequestError

FIELDS = 10_000
"""The most fields of a form."""

FORM = "form.html"
"""The template of all forms."""

LOST = "lost"
"""The parameter of the login page for a browser whose session has ended: the page says so."""

NOT_MADE = "the session has ended, and the change was not made; go back, log in, and repeat it"

PREVIEWED = "previewed"
"""The field with the address of the preview that a form shows: with other texts in its fields it only shows what they do."""

STREAM = ("api", "v1", "stream")
PAUSE_S = 1.0
LIST_PAUSE_S = 5.0
"""A page about all DAGs changes with each of them, so that it is read less often."""

SETTLE_S = 5
"""A page of a standby is read so often after a change, which the standby may not know yet."""

ANYONE = Caller("", Role.VIEWER)
"""Who reads what is shown to several users."""

Answer = Callable[[Request], Awaitable[Response]]


class Screen(msgspec.Struct, frozen=True):
    """A page: its template shows what the endpoint reads, which is the same for each user.

    A page that `is_live` follows the changes of its DAG or run.
    """

    read: Read[Any, Any] | Load[Any, Any]
    template: str
    is_live: bool = True


class Live(msgspec.Struct, frozen=True):
    """How a page follows changes: the address of the stream that windows share, and the least time between two reads.

    `after` is the position before the page was read. It shows changes of this DAG, and run, or of all.
    """

    stream: str
    after: str
    pause_s: float
    dag_id: str | None = None
    run_id: str | None = None


class Form(msgspec.Struct, frozen=True):
    """A page that shows what a change will do, and does it. The result of `act` is the address of the page that shows it.

    `keeps_texts`: after a rejection it is shown again, with what the user wrote. The parameters of `preview` have to say what it
    is about: they come from the path and from the fields of the same names.
    """

    preview: Read[Any, Preview] | Load[Any, Preview]
    act: Act[Any, Any, str]
    keeps_texts: bool = False

    @staticmethod
    def of(
        preview: Read[Any, Preview] | Load[Any, Preview],
        work: Callable[[Call[P], B], Awaitable[str]],
        params: type[P],
        body: type[B],
        *,
        does: str,
        says: Callable[[B], str] | None = None,
        about: Name = OF_DAG,
        keeps_texts: bool = False,
    ) -> "Form":
        """The change has the path and the right of its preview."""
        act = Act("POST", preview.path, preview.right, work, params, body, str, does=does, says=says, about=about)
        return Form(preview, act, keeps_texts)


def routes(screens: tuple[Screen | Form, ...], service: Service) -> list[Route]:
    """The routes of pages and forms."""
    return [route for screen in screens for route in _routes(screen, service)]


def _routes(screen: Screen | Form, service: Service) -> list[Route]:
    if isinstance(screen, Screen):
        shows_page = _shows(screen.read, screen.template, service, is_live=screen.is_live, is_shared=True)
        return [Route(screen.read.path, guarded(shows_page))]
    shows = Route(screen.preview.path, guarded(_shows(screen.preview, FORM, service)), methods=["GET"])
    return [shows, Route(screen.act.path, guarded(_acts(screen, service)), methods=["POST"])]


def guarded(answer: Answer) -> Answer:
    """The answer, or a page that says what is wrong."""

    async def answered(request: Request) -> Response:
        try:
            return await answer(request)
        except UnauthenticatedError:
            if request.method == "POST":
                return problem_page(request, problem_of(UnauthenticatedError(NOT_MADE), request.url.path))
            has_lost = "true" if cookie_name(request) in request.cookies else None
            return RedirectResponse(url("login", next=_here(request), **{LOST: has_lost}), HTTPStatus.SEE_OTHER)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - a fault is a page for its caller, and logged
            return problem_page(request, problem_of(error, request.url.path), retry_of(error))

    return answered


def problem_page(request: Request, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """A page that says what is wrong. It needs no server, so that it also says that one is away."""
    before = request.headers.get("referer", "")
    back = before if _is_own(request, before) else "/"
    navigation = navigation_of(request.url.path, may_operate=False)
    frame = {"navigation": navigation, "caller": None, **links_to_pages(_views)}
    response = render("problem.html", HTTPStatus(problem.status), problem=problem, back=back, **frame)
    response.headers.update(headers or {})
    return response


def _views(right: str, *_dags: str) -> bool:
    """The page about a problem knows no caller: it links to pages that change nothing."""
    return right == Right.VIEW


def _is_own(request: Request, address: str) -> bool:
    """Behind a proxy with TLS, browsers have another scheme than the request."""
    return address.startswith(tuple(f"{scheme}://{request.url.netloc}/" for scheme in ("http", "https")))


def _here(request: Request) -> str | None:
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return path if request.method == "GET" and path != "/" else None


def _shows(
    read: Read[Any, Any] | Load[Any, Any], template: str, service: Service, *, is_live: bool = False, is_shared: bool = False
) -> Answer:
    async def shows(request: Request) -> Response:
        identity = await require(request, service)
        call = call_of(request, service, identity, read, ignores_unknown=True)
        async with recording_refusals(call, read):
            live = live_of(call.params, service.hub) if is_live else None  # before the read: what follows is in the stream
            page = await (_shared(read, call) if is_shared else perform(read, call))
        return render(template, page=page, params=call.params, live=live, **context(request, service, identity))

    return shows


async def _shared(read: Read[Any, Any] | Load[Any, Any], call: Call[Any]) -> Any:
    """What the page shows, for all users that read it at the same time: it is the same for each user."""
    of_all = msgspec.structs.replace(call, caller=ANYONE, facts=RequestFacts(), credential_id=0)
    return await call.service.shared_reads.read((read.path, call.params), partial(perform, read, of_all))


def _acts(form: Form, service: Service) -> Answer:
    async def acts(request: Request) -> Response:
        identity = await require(request, service)
        fields = await form_of(request)
        call = call_of(request, service, identity, form.act, ignores_unknown=True)
        try:
            async with recording_refusals(call, form.act) as attempt:
                check_csrf(request, identity, fields.pop("csrf", ""))
                if fields.pop(PREVIEWED, preview_of(fields)) != preview_of(fields):
                    return RedirectResponse(preview_of(fields), HTTPStatus.SEE_OTHER)
                address = await _act(form, request, call, fields, attempt)
        except RejectedFormError as error:
            status = HTTPStatus(problem_of(error.rejection, request.url.path).status)
            frame = context(request, service, identity)
            return render(FORM, status, page=error.page, params=call.params, live=None, **frame)
        return RedirectResponse(address, HTTPStatus.SEE_OTHER)

    return acts


async def _act(form: Form, request: Request, call: Call[Any], fields: Mapping[str, str], attempt: Attempt) -> str:
    """The address of the page that shows the change. Raises RejectedFormError for a change that the user can write otherwise."""
    try:
        attempt.body = converted(fields, form.act.body, strict=False)
        address: str = await perform(form.act, call, attempt.body)
    except (RejectedFormError, ForbiddenError, NotFoundError):
        raise
    except RequestError as error:
        page = await _shown_again(form, {**fields, **request.path_params}, call) if form.keeps_texts else None
        if page is None:
            raise
        raise RejectedFormError(error, with_rejection(page, fields, error)) from error
    return address


async def _shown_again(form: Form, given: Mapping[str, str], call: Call[Any]) -> Preview | None:
    """What the form shows now; None if it shows nothing."""
    known = {name: text for name, text in given.items() if name in form.preview.params.__struct_encode_fields__}
    try:
        params = converted(known, form.preview.params, strict=False)
        page: Preview = await perform(form.preview, msgspec.structs.replace(call, params=params))
    except RequestError:
        return None
    return page


def live_of(params: Params, hub: Hub) -> Live:
    """A page about the DAG or the run that the parameters name, or about all."""
    dag_id, run_id = getattr(params, "dag_id", None) or None, getattr(params, "run_id", None)
    run_id = None if run_id == NEWEST_RUN else run_id
    pause_s = LIST_PAUSE_S if dag_id is None else PAUSE_S
    return Live(url(*STREAM, coalesce="true"), hub.recent.encode(), pause_s, dag_id, run_id)


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form, without empty ones. Raises InvalidError for a body that is no form."""
    try:
        fields = dict(parse_qsl((await request.body()).decode(), max_num_fields=FIELDS))
    except ValueError as error:
        raise InvalidError(f"the form cannot be read: {error}") from error
    if any("\0" in text for field in fields.items() for text in field):
        raise InvalidError(NUL)
    return fields


def context(request: Request, service: Service, identity: Identity | None) -> Mapping[str, Any]:
    """What the frame of every page shows."""

    def may(right: str, *dags: str) -> bool:
        needed: tuple[str | None, ...] = dags or (None,)
        return identity is not None and not any(
            refusal(service.settings, identity.caller, Right(right), dag_id) for dag_id in needed
        )

    return {
        "caller": identity.caller if identity else None,
        "csrf": identity.csrf if identity else "",
        "path": request.url.path,
        "navigation": navigation_of(request.url.path, may_operate=may(Right.OPERATE)),
        "settle_s": SETTLE_S if service.settings.web_dsn else 0,
        "scan_s": service.settings.dags_scan_s,
        "now": service.reader.clock.known(),
        "may": may,
        **links_to_pages(may),
        "linked": links_of(service.settings),
    }
