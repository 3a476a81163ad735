"""Templates, and what they say about times, states and addresses."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from tidegate.daemon.read_model.event import own_extra
from tidegate.daemon.read_model.why_not import fact_text
from tidegate.schemas.timetable.text import age, span, took, utc

SIGNS = {
    "success": ("ok", "●"),
    "active": ("ok", "●"),
    "running": ("run", "◐"),
    "open": ("run", "◐"),
    "failed": ("bad", "✕"),
    "upstream_failed": ("up", "↑"),
    "broken": ("bad", "✕"),
    "held": ("held", "‖"),
    "paused": ("held", "‖"),
    "cancelled": ("skip", "\N{EN DASH}"),
    "skipped": ("skip", "\N{EN DASH}"),
    "removed": ("skip", "\N{EN DASH}"),
    "stale": ("skip", "\N{EN DASH}"),
}
"""By state, its colour and its sign, so that colour alone never tells. Every other state waits."""

WAITING = ("wait", "○")


@cache
def environment() -> Environment:
    made = Environment(
        autoescape=True,
        loader=PackageLoader("tidegate.daemon.web"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"age": age, "utc": utc, "span": span, "own_extra": own_extra}
    made.globals |= {"sign": sign, "static": static, "url": url, "took": took, "in_time": in_time, "known": fact_text}
    return made


def render(template: str, status: HTTPStatus = HTTPStatus.OK, **context: Any) -> HTMLResponse:
    return HTMLResponse(environment().get_template(template).render(context), status)


def sign(state: str | None) -> tuple[str, str]:
    """The colour and the sign of a state."""
    return SIGNS.get(state or "", WAITING)


def url(*parts: object, **query: object) -> str:
    """`url("dags", dag_id, limit=5)`: an address whose parts are escaped. Query parameters that are None are left out."""
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    pairs = [f"{name}={quote(str(value), safe='')}" for name, value in query.items() if value is not None]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def static(name: str) -> str:
    """The address of a file of `static/`: it changes with the content, so that browsers may keep it."""
    return f"/static/{name}?v={_digests()[name]}"


@cache
def _digests() -> Mapping[str, str]:
    folder = files(__package__).joinpath("static")
    return {file.name: sha256(file.read_bytes()).hexdigest()[:12] for file in folder.iterdir()}


def in_time(due: datetime, now: datetime) -> str:
    """`in 5m12s`, or `12s ago`."""
    return f"in {age(now, due)}" if due > now else f"{age(due, now)} ago"
