"""Datasets, patterns of them, and the conditions that DAG authors make of them with `&`, `|` and `n_of`."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn

import msgspec

from tidegate.schemas.authoring.duration import limit
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef, DatasetSpec, NOf, PatternRef, leaves
from tidegate.schemas.conditions.filter_syntax import parse
from tidegate.schemas.conditions.pattern import problem
from tidegate.schemas.error import DagError, FilterError

MAX_NESTING = 64

_URI = re.compile(r"[\x21-\x7e]{1,2048}")


DESCRIBED: dict[str, DatasetSpec] = {}
"""What is said of datasets in this process, which in a daemon has no other DAG file than one."""


class Expression:
    """A condition over datasets, such as `flights & (weather | forecast)`."""

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
        return text(self.condition)


class Dataset(Expression):
    """Data that DAGs make and wait for, known by its URI: 1 to 2048 printable ASCII characters without spaces.

    Datasets with the same URI are the same dataset, whichever file names them. `where` says which of its events count, by their
    `extra` (see `tidegate.schemas.conditions.filter`); after `expire_after` an event that still waits counts no longer. `name`
    and `extra` say more of the dataset to people; the last file that says it holds.
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
        shown = _uri("Dataset", uri)
        if name or extra:
            DESCRIBED[uri] = _described(shown, uri, name, extra or {})
        super().__init__(DatasetRef(uri, checked_filter(shown, where), limit(shown, "expire_after", expire_after)))
        self.uri = uri

    def __repr__(self) -> str:
        return f"Dataset({self.uri!r})"


class DatasetPattern(Expression):
    """All datasets whose URIs a pattern matches: `*` stands for any characters but `/`, `**` for any characters at all.

    One event of any of them is enough, also of one that nobody has heard of before.
    """

    def __init__(self, pattern: str, *, where: str = "", expire_after: timedelta | None = None) -> None:
        shown = _uri("DatasetPattern", pattern)
        if (wrong := problem(pattern)) is not None:
            raise DagError(f"{shown}: {wrong}")
        super().__init__(PatternRef(pattern, checked_filter(shown, where), limit(shown, "expire_after", expire_after)))

    def __repr__(self) -> str:
        return f"DatasetPattern({text(self.condition)!r})"


def n_of(k: int, *of: Expression | Sequence[Expression]) -> Expression:
    """Holds when at least `k` of these do: `n_of(2, a, b, c)`, or of a list."""
    listed = of[0] if len(of) == 1 and isinstance(of[0], list | tuple) else of
    operands = [operand for operand in listed if isinstance(operand, Expression)]
    if not operands or len(operands) < len(listed):
        raise DagError(f"n_of({k!r:.20}, …) takes datasets and conditions of them, like n_of(2, a, b, c)")
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= len(operands):
        raise DagError(f"n_of({k!r:.20}, …): how many of them must hold is a whole number from 1 to {len(operands)}")
    return Expression(NOf(k, tuple(operand.condition for operand in operands)))


def checked_filter(where: str, given: object) -> str:
    """A filter on events, as it was written. Raises DagError, which says where in it something else was expected."""
    if not isinstance(given, str):
        raise DagError(f'{where}: where must be a text like "rows > 0", not {given!r:.100}')
    try:
        if given:
            parse(given)
    except FilterError as error:
        raise DagError(f"{where}: where: {error}") from None
    return given


def text(condition: Condition) -> str:
    """A condition as one writes it: `(lake://a & lake://b)`."""
    match condition:
        case DatasetRef(name, where) | PatternRef(name, where):
            return f"{name}[{where}]" if where else name
        case AllOf(of):
            return f"({' & '.join(map(text, of))})"
        case AnyOf(of):
            return f"({' | '.join(map(text, of))})"
        case NOf(k, of):
            return f"{k} of ({', '.join(map(text, of))})"


def described(condition: Condition | None, outlets: Iterable[str]) -> tuple[DatasetSpec, ...]:
    """What is said of those of these datasets of which something is, by URI."""
    mentioned = {*outlets, *(leaves(condition) if condition is not None else ())}
    return tuple(DESCRIBED[uri] for uri in sorted(mentioned & DESCRIBED.keys()))


def nesting(condition: Condition) -> int:
    """How deep a condition is nested, counted without recursion; a single dataset is 1."""
    level, layer = 0, [condition]
    while layer:
        level += 1
        layer = [operand for parent in layer if isinstance(parent, AllOf | AnyOf | NOf) for operand in parent.of]
    return level


def condition_of(where: str, schedule: object) -> Condition | None:
    """What `Dag(schedule=…)` was given, as a condition. Raises DagError."""
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


def _uri(kind: str, given: object) -> str:
    """How messages call it. Raises DagError for what cannot be a URI."""
    shown = f"{kind}({given!r:.100})"
    if not isinstance(given, str) or not _URI.fullmatch(given):
        raise DagError(f"{shown}: a URI is 1 to 2048 printable ASCII characters without spaces, like lake://flights")
    return shown


def _described(where: str, uri: str, name: object, extra: object) -> DatasetSpec:
    """Raises DagError."""
    try:
        return msgspec.convert({"uri": uri, "name": name, "extra": msgspec.to_builtins(extra)}, DatasetSpec)
    except (msgspec.ValidationError, TypeError) as error:
        raise DagError(f"{where}: name is a text of 250 characters at most, extra an object that fits JSON: {error}") from None


def _operands(kind: type[AllOf] | type[AnyOf], symbol: str, left: Expression, right: Expression) -> tuple[Condition, ...]:
    """`a & b & c` is one AND of three, not an AND inside another."""
    if not isinstance(right, Expression):
        raise DagError(f"only datasets can be combined with {symbol}, not {right!r:.100}")
    return tuple(
        operand for side in (left.condition, right.condition) for operand in (side.of if isinstance(side, kind) else (side,))
    )


def _refusal(reason: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any) -> NoReturn:
        raise DagError(reason)

    return refuse


# Set here and not as methods, so that type checkers refuse these operators too.
_UNKNOWN = (
    *("add +", "sub -", "mul *", "truediv /", "floordiv //", "mod %", "pow **", "matmul @", "radd +", "rsub -", "rmul *"),
    *("xor ^", "rxor ^", "lshift <<", "rshift >>", "lt <", "le <=", "gt >", "ge >=", "invert ~", "neg -", "pos +"),
)
for _name, _symbol in (operator.split() for operator in _UNKNOWN):
    _reason = f"{_symbol} is not an operator on datasets; combine them with & (and) and | (or)"
    setattr(Expression, f"__{_name}__", _refusal(_reason))
for _name, _symbol in (("rand", "&"), ("ror", "|")):
    setattr(Expression, f"__{_name}__", _refusal(f"only datasets can be combined with {_symbol}"))
