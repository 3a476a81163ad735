"""What DAGs wait for: datasets, patterns of datasets and filters on events, joined into a condition, and when it counts.

An event's own time is `occurred_at`, but not later than when it arrived. Durations are in seconds.
"""

from collections.abc import Collection, Set
from datetime import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tidegate.schemas.conditions.pattern import matches

Uri = Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^[\x21-\x7e]+\Z")]
MAX_SECONDS = 10 * 365 * 86_400.0
Positive = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]


class DatasetRef(msgspec.Struct, frozen=True, tag="dataset", tag_field="op", forbid_unknown_fields=True, omit_defaults=True):
    """True while an event of this dataset is pending that `where` lets pass and that happened less than `expire_after_s` ago."""

    uri: Uri
    where: str = ""
    expire_after_s: Positive | None = None

    def covers(self, uri: str) -> bool:
        return self.uri == uri


class PatternRef(msgspec.Struct, frozen=True, tag="pattern", tag_field="op", forbid_unknown_fields=True, omit_defaults=True):
    """True while such an event of any dataset is pending whose URI the pattern matches."""

    pattern: Uri
    where: str = ""
    expire_after_s: Positive | None = None

    def covers(self, uri: str) -> bool:
        return matches(self.pattern, uri)


class AllOf(msgspec.Struct, frozen=True, tag="all_of", tag_field="op", forbid_unknown_fields=True):
    """True when every operand is."""

    of: Annotated[tuple["Condition", ...], Meta(min_length=1)]


class AnyOf(msgspec.Struct, frozen=True, tag="any_of", tag_field="op", forbid_unknown_fields=True):
    """True when at least one operand is."""

    of: Annotated[tuple["Condition", ...], Meta(min_length=1)]


class NOf(msgspec.Struct, frozen=True, tag="n_of", tag_field="op", forbid_unknown_fields=True):
    """True when at least `k` operands are."""

    k: Annotated[int, Meta(ge=1, le=100_000)]
    of: Annotated[tuple["Condition", ...], Meta(min_length=1)]


Leaf = DatasetRef | PatternRef
Condition = Leaf | AllOf | AnyOf | NOf


class DatasetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What people should know of a dataset: a name, and any JSON object."""

    uri: Uri
    name: Annotated[str, Meta(max_length=250)] = ""
    extra: dict[str, Any] = {}


class InputDeadlineSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """By when the condition is to hold: `after_s` from the arrival of the first event that waits, or daily `at` a time of day.

    If it does not, `fallback` says what becomes of what has arrived: a run all the same, none, or a word to whoever looks.
    """

    after_s: Positive | None = None
    at: time | None = None
    timezone: str = "UTC"
    fallback: Literal["run_anyway", "skip", "alert"] = "run_anyway"


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a condition counts whose inputs are there.

    `within_s`: the inputs of a run happened within this time of each other. `quiet_for_s`: nothing has arrived for so long,
    but `max_wait_s` after the inputs were there that does not matter any more. `min_interval_s` lies between two runs.
    """

    within_s: Positive | None = None
    quiet_for_s: Positive | None = None
    max_wait_s: Positive | None = None
    min_interval_s: Positive | None = None
    deadline: InputDeadlineSpec | None = None


ANY_TIME = Timing()


def inputs(condition: Condition) -> tuple[Leaf, ...]:
    """The datasets and patterns of a condition in their order, each once."""
    match condition:
        case DatasetRef() | PatternRef():
            return (condition,)
        case AllOf(of) | AnyOf(of) | NOf(_, of):
            return tuple(dict.fromkeys(leaf for operand in of for leaf in inputs(operand)))


def leaves(condition: Condition) -> frozenset[str]:
    """The URIs a condition mentions."""
    return frozenset(leaf.uri for leaf in inputs(condition) if isinstance(leaf, DatasetRef))


def patterns(condition: Condition) -> frozenset[str]:
    """The patterns a condition mentions."""
    return frozenset(leaf.pattern for leaf in inputs(condition) if isinstance(leaf, PatternRef))


def met(condition: Condition, there: Collection[Leaf]) -> bool:
    """Whether the condition is met when these of its inputs are there."""
    match condition:
        case DatasetRef() | PatternRef():
            return condition in there
        case AllOf(of):
            return all(met(operand, there) for operand in of)
        case AnyOf(of):
            return any(met(operand, there) for operand in of)
        case NOf(k, of):
            return sum(met(operand, there) for operand in of) >= k


def holds(condition: Condition, pending: Set[str]) -> bool:
    """Whether the condition is met when the URIs in `pending` each have an event waiting, filters and times apart."""
    match condition:
        case DatasetRef(uri):
            return uri in pending
        case PatternRef(pattern):
            return any(matches(pattern, uri) for uri in pending)
        case AllOf(of):
            return all(holds(operand, pending) for operand in of)
        case AnyOf(of):
            return any(holds(operand, pending) for operand in of)
        case NOf(k, of):
            return sum(holds(operand, pending) for operand in of) >= k


def inspects_details(condition: Condition) -> bool:
    """Whether a condition depends on more of an event than its dataset."""
    return any(isinstance(leaf, PatternRef) or leaf.where or leaf.expire_after_s for leaf in inputs(condition))
