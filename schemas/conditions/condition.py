"""Conditions over datasets: their serialised shapes, their timing, and when they are met.

The time of an event is its `occurred_at`, but not later than its arrival. Durations are in seconds.
"""

from collections.abc import Container, Set
from datetime import time
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tidegate.schemas.conditions.pattern import matches

MAX_NESTING = 64
MAX_SECONDS = 10 * 365 * 86_400.0

_URI_PATTERN = r"^[\x21-\x7e]+\Z"
URI_RULE = "a URI is 1 to 2048 printable ASCII characters without spaces, like lake://flights"

Uri = Annotated[str, Meta(min_length=1, max_length=2048, pattern=_URI_PATTERN)]
Positive = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]


Fallback = Literal["run_anyway", "skip", "alert"]


def decoding_problem(error: Exception) -> str:
    """The message of a decoder of msgspec, with the rule for URIs in place of its pattern."""
    return str(error).replace(f"Expected `str` matching regex {_URI_PATTERN!r}", URI_RULE)


class DatasetRef(msgspec.Struct, frozen=True, tag="dataset", tag_field="op", forbid_unknown_fields=True, omit_defaults=True):
    """Met while an event of the dataset is pending that passes the filter `where` and happened less than `expire_after_s` ago."""

    uri: Uri
    where: str = ""
    expire_after_s: Positive | None = None

    def covers(self, uri: str) -> bool:
        return self.uri == uri


class PatternRef(msgspec.Struct, frozen=True, tag="pattern", tag_field="op", forbid_unknown_fields=True, omit_defaults=True):
    """As `DatasetRef`, for every dataset whose URI the pattern matches."""

    pattern: Uri
    where: str = ""
    expire_after_s: Positive | None = None

    def covers(self, uri: str) -> bool:
        return matches(self.pattern, uri)


class AllOf(msgspec.Struct, frozen=True, tag="all_of", tag_field="op", forbid_unknown_fields=True):
    """Met when every operand is."""

    of: Annotated[tuple["Condition", ...], Meta(min_length=1)]


class AnyOf(msgspec.Struct, frozen=True, tag="any_of", tag_field="op", forbid_unknown_fields=True):
    """Met when at least one operand is."""

    of: Annotated[tuple["Condition", ...], Meta(min_length=1)]


class NOf(msgspec.Struct, frozen=True, tag="n_of", tag_field="op", forbid_unknown_fields=True):
    """Met when at least `k` operands are."""

    k: Annotated[int, Meta(ge=1, le=100_000)]
    of: Annotated[tuple["Condition", ...], Meta(min_length=1)]


Leaf = DatasetRef | PatternRef
Condition = Leaf | AllOf | AnyOf | NOf


class DatasetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The description of a dataset for people: a name, and any JSON object."""

    uri: Uri
    name: Annotated[str, Meta(max_length=250)] = ""
    extra: dict[str, Any] = {}


class InputDeadlineSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When the inputs are due: `after_s` from the arrival of the first pending event, or daily `at` a time of day in `timezone`.

    If the condition is not met by then, `fallback` decides on the pending events: `run_anyway` creates a run of them, `skip`
    discards them, `alert` records the miss and keeps them.
    """

    after_s: Positive | None = None
    at: time | None = None
    timezone: str = "UTC"
    fallback: Fallback = "run_anyway"


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a condition that is met creates a run.

    `within_s`: the inputs of a run happened within this time of each other. `quiet_for_s`: no event has arrived for this long;
    `max_wait_s` after the condition was met the run starts in any case. `min_interval_s`: between the creation of two runs.
    """

    within_s: Positive | None = None
    quiet_for_s: Positive | None = None
    max_wait_s: Positive | None = None
    min_interval_s: Positive | None = None
    deadline: InputDeadlineSpec | None = None


ANY_TIME = Timing()


def inputs(condition: Condition) -> tuple[Leaf, ...]:
    """The datasets and patterns of a condition in order, each once."""
    match condition:
        case DatasetRef() | PatternRef():
            return (condition,)
        case AllOf(of) | AnyOf(of) | NOf(_, of):
            return tuple(dict.fromkeys(leaf for operand in of for leaf in inputs(operand)))


def dataset_uris(condition: Condition) -> frozenset[str]:
    """The URIs of the datasets that a condition names."""
    return frozenset(leaf.uri for leaf in inputs(condition) if isinstance(leaf, DatasetRef))


def patterns(condition: Condition) -> frozenset[str]:
    """The patterns that a condition names."""
    return frozenset(leaf.pattern for leaf in inputs(condition) if isinstance(leaf, PatternRef))


def met_by_inputs(condition: Condition, present: Container[Leaf]) -> bool:
    """Whether the condition is met while the inputs in `present` each have an event pending."""
    match condition:
        case DatasetRef() | PatternRef():
            return condition in present
        case AllOf(of):
            return all(met_by_inputs(operand, present) for operand in of)
        case AnyOf(of):
            return any(met_by_inputs(operand, present) for operand in of)
        case NOf(k, of):
            return sum(met_by_inputs(operand, present) for operand in of) >= k


def met_by_uris(condition: Condition, pending: Set[str]) -> bool:
    """Whether the condition is met while the URIs in `pending` each have an event pending. Ignores filters and expiry."""
    return met_by_inputs(condition, _LeavesOf(pending))


class _LeavesOf:
    """The datasets and patterns that cover at least one of these URIs."""

    __slots__ = ("_uris",)

    def __init__(self, uris: Set[str]) -> None:
        self._uris = uris

    def __contains__(self, leaf: object) -> bool:
        if isinstance(leaf, DatasetRef):
            return leaf.uri in self._uris
        return isinstance(leaf, PatternRef) and any(map(partial(matches, leaf.pattern), self._uris))


def inspects_details(condition: Condition) -> bool:
    """Whether the condition depends on more of an event than its dataset's URI: a pattern, a filter or an expiry."""
    return any(isinstance(leaf, PatternRef) or leaf.where or leaf.expire_after_s for leaf in inputs(condition))


def nesting(condition: Condition) -> int:
    """The nesting depth of a condition, counted without recursion; 1 for a single dataset."""
    level, layer = 0, [condition]
    while layer:
        level += 1
        layer = [operand for parent in layer if isinstance(parent, AllOf | AnyOf | NOf) for operand in parent.of]
    return level


def describe_condition(condition: Condition) -> str:
    """A condition as its author writes it: `(lake://a & lake://b)`."""
    match condition:
        case DatasetRef(name, where) | PatternRef(name, where):
            return f"{name}[{where}]" if where else name
        case AllOf(of):
            return f"({' & '.join(map(describe_condition, of))})"
        case AnyOf(of):
            return f"({' | '.join(map(describe_condition, of))})"
        case NOf(k, of):
            return f"{k} of ({', '.join(map(describe_condition, of))})"
