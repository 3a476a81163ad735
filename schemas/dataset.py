"""Datasets, and the conditions that DAG authors make of them with `&` and `|`."""

import re
from collections.abc import Callable
from typing import Any, NoReturn

from tidegate.schemas.dag import AllOf, AnyOf, Condition, DatasetRef
from tidegate.schemas.error import DagError

MAX_NESTING = 64

_URI = re.compile(r"[\x21-\x7e]{1,2048}")


class Expression:
    """A condition over datasets, such as `flights & (weather | forecast)`."""

    condition: Condition

    def __init__(self, condition: Condition) -> None:
        self.condition = condition

    def __and__(self, other: "Expression") -> "Expression":
        return Expression(_join(AllOf, "&", self, other))

    def __or__(self, other: "Expression") -> "Expression":
        return Expression(_join(AnyOf, "|", self, other))

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

    Datasets with the same URI are the same dataset, whichever file names them.
    """

    def __init__(self, uri: str) -> None:
        if not isinstance(uri, str) or not _URI.fullmatch(uri):
            shown = repr(uri) if len(repr(uri)) <= 100 else f"{repr(uri)[:100]}…"
            raise DagError(f"Dataset({shown}): a URI is 1 to 2048 printable ASCII characters without spaces, like lake://flights")
        super().__init__(DatasetRef(uri))
        self.uri = uri

    def __repr__(self) -> str:
        return f"Dataset({self.uri!r})"


def text(condition: Condition) -> str:
    """A condition as one writes it: `(lake://a & lake://b)`."""
    match condition:
        case DatasetRef(uri):
            return uri
        case AllOf(of):
            return f"({' & '.join(map(text, of))})"
        case AnyOf(of):
            return f"({' | '.join(map(text, of))})"


def nesting(condition: Condition) -> int:
    """How deep a condition is nested; a single dataset is 1."""
    match condition:
        case DatasetRef():
            return 1
        case AllOf(of) | AnyOf(of):
            return 1 + max(map(nesting, of))


def _join(kind: type[AllOf] | type[AnyOf], symbol: str, left: Expression, right: Expression) -> Condition:
    if not isinstance(right, Expression):
        raise DagError(f"{left!r} {symbol} {right!r}: only datasets can be combined with {symbol}")
    joined = kind((*_operands(kind, left.condition), *_operands(kind, right.condition)))
    if nesting(joined) > MAX_NESTING:
        raise DagError(f"a condition over datasets may be nested {MAX_NESTING} levels deep, not deeper")
    return joined


def _operands(kind: type[AllOf] | type[AnyOf], condition: Condition) -> tuple[Condition, ...]:
    """`a & b & c` is one AND of three, not an AND inside another."""
    return condition.of if isinstance(condition, kind) else (condition,)


def _refusal(symbol: str) -> Callable[..., NoReturn]:
    def refuse(_: Expression, *__: Any) -> NoReturn:
        raise DagError(f"{symbol} is not an operator on datasets; combine them with & (and) and | (or)")

    return refuse


# Set here and not as methods, so that type checkers refuse these operators too.
_REFUSED = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "invert": "~",
    "neg": "unary -",
    "pos": "unary +",
    "rand": "&",
    "ror": "|",
    "radd": "+",
    "rsub": "-",
    "rxor": "^",
}
for _name, _symbol in _REFUSED.items():
    setattr(Expression, f"__{_name}__", _refusal(_symbol))
