"""Templates, and the texts, signs and addresses in them."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache, lru_cache
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct
from msgspec.structs import fields, replace
from starlette.responses import HTMLResponse

from tidegate.daemon.read_model.audit_log import in_words
from tidegate.daemon.read_model.event import own_extra
from tidegate.daemon.read_model.leases import leases_text
from tidegate.daemon.read_model.now import LISTED
from tidegate.daemon.read_model.queue import AT_WORK
from tidegate.daemon.read_model.system import resume_command, settle_command
from tidegate.daemon.read_model.why_not import fact_text
from tidegate.daemon.web.bars import duration_bar, span_bar
from tidegate.daemon.web.numbers import together
from tidegate.daemon.web.shown import exact, finalized
from tidegate.schemas.queries import now
from tidegate.schemas.queries.counting import counted_text, counted_to_bound, tasks_wait
from tidegate.schemas.text import age, counted, span, took, utc

MARKS = {
    "ok": "●",
    "run": "◐",
    "bad": "✕",
    "up": "↑",
    "held": "‖",
    "skip": "\N{EN DASH}",
    "wait": "○",
}
"""By colour, the mark beside a word: colour alone never tells. In cells and drawings each colour has a form of its own."""

STATES = {
    "ok": ("success", "active", "succeeded", "consumed", "replayed", "sent", "met"),
    "run": ("running", "open", "accepted", "sending"),
    "bad": ("failed", "broken", "lost", "missed"),
    "up": ("upstream_failed",),
    "held": ("held", "paused"),
    "skip": ("cancelled", "skipped", "removed", "stale", "killed", "discarded"),
}
COLOURS = {state: colour for colour, states in STATES.items() for state in states}
WAITING = "wait"
"""The colour of every other state."""

GATES = {"open": "ok", "closed": WAITING}
"""By state of a gate, its colour; the others do not matter to its task."""

WORDS = {"none": "not begun", "retry": "runs again", "upstream_failed": "upstream failed"}
"""The states whose names do not say what they mean."""


@cache
def environment() -> Environment:
    made = Environment(
        autoescape=True,
        loader=PackageLoader("tidegate.daemon.web"),
        undefined=StrictUndefined,
        finalize=finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "age": age,
        "in_words": in_words,
        "utc": utc,
        "span": span,
        "own_extra": own_extra,
        "counted": counted,
        "counted_text": counted_text,
        "counted_to_bound": counted_to_bound,
        "tasks_wait": tasks_wait,
        "together": together,
        "number": "{:,.0f}".format,
        "exact": exact,
    }
    made.globals |= {"url": url, "query": query, "dag_url": dag_url, "run_url": run_url, "task_url": task_url}
    made.globals |= {"colour": colour, "gate_colour": gate_colour, "letter_colour": letter_colour, "MARKS": MARKS}
    made.globals |= {"state_word": state_word, "static": static, "known": fact_text, "leases": leases_text}
    made.globals |= {"took": took, "in_time": in_time, "ran_s": ran_s, "AT_WORK": AT_WORK}
    made.globals |= {"duration_bar": duration_bar, "span_bar": span_bar}
    made.globals |= {"LISTED": LISTED, "LOOKED_AT": (now.WAITING, now.DAGS)}
    made.globals |= {"resume_command": resume_command, "settle_command": settle_command}
    return made


def render(template: str, status: HTTPStatus = HTTPStatus.OK, **context: Any) -> HTMLResponse:
    return HTMLResponse(environment().get_template(template).render(context), status)


def colour(state: str | None) -> str:
    """The colour of the state of a run, a task or another object."""
    return COLOURS.get(state or "", WAITING)


def gate_colour(state: str) -> str:
    return GATES.get(state, "skip")


def letter_colour(state: str) -> str:
    """An open dead letter needs a user, unlike other open objects."""
    return "bad" if state == "open" else colour(state)


def state_word(state: str) -> str:
    """A state as pages call it."""
    return WORDS.get(state, state)


def url(*parts: object, **query: object) -> str:
    """`url("dags", dag_id, limit=5)`: an address whose parts are escaped. Query parameters that are None are left out."""
    path = "/" + "/".join(_quoted(str(part)) for part in parts)
    pairs = [f"{name}={_quoted(str(value))}" for name, value in query.items() if value is not None]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


# Cached: a page has thousands of addresses, of few DAGs.
@lru_cache(maxsize=4096)
def _quoted(part: str) -> str:
    return quote(part, safe="")


def query(params: Struct, **changes: object) -> Mapping[str, object]:
    """The query of the page with these parameters, and with changes; without defaults, and without what its path has."""
    changed = replace(params, **changes)
    chosen = {field.name: (getattr(changed, field.name), field.default) for field in fields(changed) if not field.required}
    return {name: value for name, (value, default) in chosen.items() if value != default}


def dag_url(dag_id: str, *below: object, **query: object) -> str:
    """The page of a DAG, or one below it."""
    return url("dags", dag_id, *below, **query)


def run_url(dag_id: str, run_id: str, *below: object, **query: object) -> str:
    """The page of a run, or one below it."""
    return dag_url(dag_id, "runs", run_id, *below, **query)


def task_url(dag_id: str, run_id: str, label: str, *below: object, **query: object) -> str:
    """The page of a task of a run, or of an instance such as `load[3]`; or one below it."""
    return run_url(dag_id, run_id, "tasks", label, *below, **query)


def static(name: str) -> str:
    """The address of a file of `static/`: it changes with the content, so that browsers may keep it."""
    return f"/static/{name}?v={_digests()[name]}"


@cache
def _digests() -> Mapping[str, str]:
    folder = files(__package__).joinpath("static")
    return {file.name: digest(file.name) for file in folder.iterdir()}


def digest(name: str) -> str:
    """The version of a file of `static/` as it is now."""
    return sha256(files(__package__).joinpath("static", name).read_bytes()).hexdigest()[:12]


def ran_s(start: datetime | None, end: datetime | None, now: datetime) -> float:
    """The seconds up to the end or, without an end, up to now; 0 before the start, and never negative."""
    return 0.0 if start is None else max(((end or now) - start).total_seconds(), 0.0)


def in_time(due: datetime, now: datetime) -> str:
    """`in 5m12s`, or `12s ago`."""
    return f"in {age(now, due)}" if due > now else f"{age(due, now)} ago"
