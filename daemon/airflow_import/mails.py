"""`email`, `email_on_failure` and `email_on_retry` of Airflow as receivers of events, and `owner` as a tag."""

import ast
import re
from collections.abc import Sequence

from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.layout import call, constant, keyword
from tidegate.schemas.authoring.callbacks import Email
from tidegate.schemas.error import DagError

_EVENTS = {"email_on_failure": "on_failure", "email_on_retry": "on_retry"}
_NOBODY = frozenset({"airflow", ""})
"""Owners that Airflow writes by itself."""


def with_receivers(context: Context, options: Sequence[ast.keyword]) -> list[ast.keyword]:
    """The options with `on_failure=Email(…)`, as Airflow sends it unless told otherwise; without the options that said so.

    Addresses that the file does not say stay as they are, and are listed with the other options.
    """
    given = {option.arg: option.value for option in options}
    addresses = _addresses(context, given["email"]) if "email" in given else []
    if addresses is None or any(_event_of(option) in given for option in _EVENTS):
        return list(options)
    sent = [event for option, event in _EVENTS.items() if addresses and not _is_false(given.get(option))]
    kept = [option for option in options if option.arg not in ("email", *_EVENTS)]
    receivers = [keyword(event, call(context.need("tidegate", "Email"), list(map(constant, addresses)))) for event in sent]
    return [*kept, *receivers]


def _event_of(option: str) -> str:
    return f"{_EVENTS[option]}_callback"


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _addresses(context: Context, node: ast.expr) -> list[str] | None:
    """The addresses; None if the file does not say them, or one is none for Tidegate."""
    held = context.facts.constants.get(node.id, node) if isinstance(node, ast.Name) else node
    parts = held.elts if isinstance(held, ast.List | ast.Tuple) else [held]
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    if len(texts) < len(parts):
        return [] if isinstance(held, ast.Constant) and held.value is None else None
    found = [address.strip() for text in texts for address in re.split(r"[,;]", text) if address.strip()]
    try:
        return found if not found or Email(*found) else None
    except DagError:
        return None


def owner_of(context: Context, options: Sequence[ast.keyword]) -> str | None:
    """The owner that the options of a DAG say as a text; empty for one that is no person."""
    for option in options:
        held = context.facts.constants.get(option.value.id) if isinstance(option.value, ast.Name) else option.value
        if option.arg == "owner" and isinstance(held, ast.Constant) and isinstance(held.value, str):
            return "" if held.value in _NOBODY else held.value
    return None


def with_owner(options: Sequence[ast.keyword], owner: str) -> list[ast.keyword]:
    """The options of a DAG with its owner among the tags; as they are if the tags are no list in the file."""
    tags = next((option for option in options if option.arg == "tags"), None)
    if tags is None:
        return [*options, keyword("tags", ast.List(elts=[constant(owner)], ctx=ast.Load()))]
    if not isinstance(tags.value, ast.List):
        return list(options)
    known = any(isinstance(element, ast.Constant) and element.value == owner for element in tags.value.elts)
    added = tags.value.elts if known else [*tags.value.elts, constant(owner)]
    written = ast.copy_location(ast.List(elts=list(added), ctx=ast.Load()), tags.value)
    return [keyword("tags", written) if option is tags else option for option in options]
