"""Datasets, patterns of datasets, and the conditions that DAG files build from them with `&`, `|` and `n_of`."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn

import msgspec

from tidegate.schemas.authoring.arguments import limit_seconds
from tidegate.schemas.conditions.condition import (
    MAX_NESTING,
    URI_RULE,
    AllOf,
    AnyOf,
    Condition,
    DatasetRef,
    DatasetSpec,
    NOf,
    PatternRef,
    dataset_uris,
    describe_condition,
    nesting,
)
from tidegate.schemas.conditions.filter_syntax import parse
from tidegate.schemas.conditions.pattern import pattern_problem
from tidegate.schemas.error import DagError, FilterError

_URI = re.compile(r"[\x21-\x7e]{1,2048}")


_DESCRIPTIONS: dict[str, DatasetSpec] = {}
"""By URI, the datasets given a name or an extra in this process; a daemon parses each DAG file in a process of its own."""


class Expression:
    """A condition over datasets, such as `flights & (weather | forecast)`. Combine conditions with `&`, `|` and `n_of`."""

    condition: Condition

    def __init__(self, condition: Condition) -> None:
        self.condition = condition

    def __and__(self, other: "Expression") -> "Expression":
        return Expression(AllOf(_operands(AllOf, "&", self, other)))

    def __or__(self, other: "Expression") -> "Expression":
        return Expression(AnyOf(_operands(AnyOf, "|", self, other)))

    def __bool__(self) -> NoReturn:
        raise DagError("datasets are combined with & and |, not with `and`, `or`, `not` or `if`")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.condition == other.condition

    def __hash__(self) -> int:
        return hash(self.condition)

    def __repr__(self) -> str:
        return describe_condition(self.condition)


class Dataset(Expression):
    """Data that tasks produce and DAGs wait for, identified by its URI: 1 to 2048 printable ASCII characters without spaces.

    Objects with the same URI are the same dataset, in one file or in several.
    `where`: a filter on the `extra` of its events, such as `"rows > 0"` (see `tidegate.schemas.conditions.filter`); events that
    do not pass are discarded. Default: every event counts.
    `expire_after`: a pending event older than this no longer counts; up to ten years. Default: events never expire.
    `name` (up to 250 characters) and `extra` (any JSON object) describe the dataset to people; the file parsed last wins.
    Raises DagError for an invalid URI, filter, duration, name or extra.
    """

    def __init__(
        self,
        uri: str,
        *,
        where: str = "",
        expire_after: timedelta | None = None,
        name: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        shown = _shown("Dataset", uri)
        if name or extra:
            _DESCRIPTIONS[uri] = _description(shown, uri, name, extra or {})
        super().__init__(DatasetRef(uri, checked_filter(shown, where), limit_seconds(shown, "expire_after", expire_after)))
        self.uri = uri

    def __repr__(self) -> str:
        return f"Dataset({self.uri!r})"


class DatasetPattern(Expression):
    """Every dataset whose URI the pattern matches: `*` matches any characters but `/`, `**` any characters; at most 8 of them.

    One event of any matching dataset meets it, also of a dataset that no DAG file names. `where` and `expire_after` as for
    `Dataset`. Raises DagError for an invalid pattern, filter or duration.
    """

    def __init__(self, pattern: str, *, where: str = "", expire_after: timedelta | None = None) -> None:
        shown = _shown("DatasetPattern", pattern)
        if (problem := pattern_problem(pattern)) is not None:
            raise DagError(f"{shown}: {problem}")
        super().__init__(PatternRef(pattern, checked_filter(shown, where), limit_seconds(shown, "expire_after", expire_after)))

    def __repr__(self) -> str:
        return f"DatasetPattern({describe_condition(self.condition)!r})"


def n_of(k: int, *of: Expression | Sequence[Expression]) -> Expression:
    """A condition that is met when at least `k` of its operands are: `n_of(2, a, b, c)` or `n_of(2, [a, b, c])`.

    `k` is from 1 to the number of operands. Raises DagError otherwise.
    """
    listed = of[0] if len(of) == 1 and isinstance(of[0], list | tuple) else of
    operands = [operand for operand in listed if isinstance(operand, Expression)]
    if not operands or len(operands) < len(listed):
        raise DagError(f"n_of({k!r:.20}, …) takes datasets and conditions of them, like n_of(2, a, b, c)")
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= len(operands):
        raise DagError(f"n_of({k!r:.20}, …): how many of them must hold is a whole number from 1 to {len(operands)}")
    return Expression(NOf(k, tuple(operand.condition for operand in operands)))


def checked_filter(where: str, given: object) -> str:
    """A filter on events as written. Raises DagError with the position of a mistake."""
    if not isinstance(given, str):
        raise DagError(f'{where}: where must be a text like "rows > 0", not {given!r:.100}')
    try:
        if given:
            parse(given)
    except FilterError as error:
        raise DagError(f"{where}: where: {error}") from None
    return given


def described_datasets(condition: Condition | None, outlets: Iterable[str]) -> tuple[DatasetSpec, ...]:
    """The datasets among the condition's and the outlets that have a name or an extra, by URI."""
    uris = {*outlets, *(dataset_uris(condition) if condition is not None else ())}
    return tuple(_DESCRIPTIONS[uri] for uri in sorted(uris & _DESCRIPTIONS.keys()))


def condition_of(where: str, schedule: object) -> Condition | None:
    """The condition of a schedule without a time; a list of datasets means all of them. Raises DagError."""
    operands = (schedule,) if isinstance(schedule, Expression) else schedule
    if operands is None:
        return None
    if not isinstance(operands, list | tuple) or not operands or not all(isinstance(o, Expression) for o in operands):
        raise DagError(
            f"{where}: schedule is a dataset, datasets combined with & and |, a list of datasets, a time such as '@daily' or"
            f" '0 3 * * *', or None; not {schedule!r:.100}"
        )
    conditions = tuple(operand.condition for operand in operands)
    condition = conditions[0] if len(conditions) == 1 else AllOf(conditions)
    if nesting(condition) > MAX_NESTING:
        raise DagError(f"{where}: its schedule is nested deeper than {MAX_NESTING} levels")
    return condition


def _shown(kind: str, given: object) -> str:
    """The object as error messages name it. Raises DagError for an invalid URI."""
    shown = f"{kind}({given!r:.100})"
    if not isinstance(given, str) or not _URI.fullmatch(given):
        raise DagError(f"{shown}: {URI_RULE}")
    return shown


def _description(where: str, uri: str, name: object, extra: object) -> DatasetSpec:
    try:
        described = msgspec.to_builtins({"uri": uri, "name": name, "extra": extra}, order="deterministic")
        msgspec.json.encode(described)  # raises for a text with half a surrogate pair
        return msgspec.convert(described, DatasetSpec)
    except (ValueError, TypeError, RecursionError) as error:
        raise DagError(f"{where}: name is a text of 250 characters at most, extra an object that fits JSON: {error}") from None


def _operands(kind: type[AllOf] | type[AnyOf], symbol: str, left: Expression, right: Expression) -> tuple[Condition, ...]:
    """`a & b & c` becomes one AllOf of three operands, not an AllOf inside another."""
    if not isinstance(right, Expression):
        raise DagError(f"only datasets can be combined with {symbol}, not {right!r:.100}")
    return tuple(
        operand for side in (left.condition, right.condition) for operand in (side.of if isinstance(side, kind) else (side,))
    )


def _raising(reason: str) -> Callable[..., NoReturn]:
    # A partial() in place of the function would warn on Python 3.13, where its binding changes.
    def operator(*_: Any) -> NoReturn:
        raise DagError(reason)

    return operator


# Set by name and not defined as methods, so that type checkers refuse these operators too.
_UNSUPPORTED = (
    *("add +", "sub -", "mul *", "truediv /", "floordiv //", "mod %", "pow **", "matmul @", "radd +", "rsub -", "rmul *"),
    *("xor ^", "rxor ^", "lshift <<", "rshift >>", "lt <", "le <=", "gt >", "ge >=", "invert ~", "neg -", "pos +"),
)
for _name, _symbol in (operator.split() for operator in _UNSUPPORTED):
    _reason = f"{_symbol} is not an operator on datasets; combine them with & (and) and | (or)"
    setattr(Expression, f"__{_name}__", _raising(_reason))
for _name, _symbol in (("rand", "&"), ("ror", "|")):
    setattr(Expression, f"__{_name}__", _raising(f"only datasets can be combined with {_symbol}"))
