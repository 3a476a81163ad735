"""Filters that can be parsed, and that read other fields of an event than their author seems to mean.

An extra may have any field, so no filter is wrong for certain: a name in backquotes is that of a field, and has no note.
"""

from collections.abc import Iterator

from tidegate.daemon.lint.finding import Mistake
from tidegate.schemas.conditions.condition import inputs
from tidegate.schemas.conditions.filter_syntax import Comparison, Field, Operand, comparisons, parse
from tidegate.schemas.dag import DagSpec

PREFIX = "extra"


def doubtful_filters(spec: DagSpec) -> Iterator[Mistake]:
    """Fields called `extra`, and names of fields where a text seems to be meant."""
    filters = () if spec.schedule is None else (leaf.where for leaf in inputs(spec.schedule) if leaf.where)
    for where in dict.fromkeys(filters):
        reasons = (reason for comparison in comparisons(parse(where)) for reason in _doubts(comparison, where))
        yield from (Mistake(where, f"filter {where!r} {reason}") for reason in dict.fromkeys(reasons))


def _doubts(comparison: Comparison, where: str) -> Iterator[str]:
    if not _is_quoted(PREFIX, where) and any(map(_is_prefixed, (comparison.left, comparison.right))):
        yield f"has fields of the extra behind '{PREFIX}.': leave that out; a field that events do call so is written `{PREFIX}`"
    name = _name_for_a_text(comparison)
    if name is not None and not _is_quoted(name, where):
        yield f"compares two fields, of which one is called {name}: write '{name}' for the text, or `{name}` for the field"


def _is_prefixed(operand: Operand) -> bool:
    return isinstance(operand, Field) and len(operand.path) > 1 and operand.path[0] == PREFIX


def _name_for_a_text(comparison: Comparison) -> str | None:
    """The name behind `==` or `!=`, where a filter mostly has a text."""
    match comparison:
        case Comparison("==" | "!=", Field(), Field((str(name),))):
            return name
        case _:
            return None


def _is_quoted(name: str, where: str) -> bool:
    return f"`{name}`" in where
