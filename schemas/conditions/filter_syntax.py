"""The syntax of filters on events: a recursive-descent parser. `tidegate.schemas.conditions.filter` evaluates the tree."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from tidegate.schemas.error import FilterError

MAX_LENGTH = 2000
MAX_NESTING = 32


class Field(NamedTuple):
    """The path to a value in an extra."""

    path: tuple[str | int, ...]


class Fixed(NamedTuple):
    """A literal."""

    value: Any


Operand = Field | Fixed


class Comparison(NamedTuple):
    """Two operands and the operator between them."""

    operator: str
    left: Operand
    right: Operand


class Not(NamedTuple):
    """Negation."""

    of: "Node"


class Joined(NamedTuple):
    """A conjunction or a disjunction."""

    word: Literal["and", "or"]
    of: tuple["Node", ...]


Node = Comparison | Not | Joined


@lru_cache(maxsize=10_000)
def parse(where: str) -> Node:
    """The syntax tree. Raises FilterError with the position of the mistake and what was expected there."""
    return _Parser(where).whole()


def comparisons(node: Node) -> Iterator[Comparison]:
    """All comparisons of a filter, from left to right."""
    match node:
        case Not(of):
            yield from comparisons(of)
        case Joined(_, of):
            yield from (found for operand in of for found in comparisons(operand))
        case _:
            yield node


def kind_of(value: Any) -> str:
    """The type of a value for comparisons: only values of the same kind compare."""
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else type(value).__name__


_ORDERS = ("<", "<=", ">", ">=")
_OPERATORS = ("==", "!=", "<=", "<", ">=", ">", "in")
_WORDS = {"true": True, "false": False, "null": None}
_RESERVED = {"and", "or", "not", "in", *_WORDS}

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<quoted>`[^`]+`)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<sign>==|!=|<=|>=|[<>()\[\].,])
      | (?P<end>\Z)
      | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_SLIPS = {"=": "==", "=>": ">=", "=<": "<=", "&": "and", "|": "or", "!": "not", "AND": "and", "OR": "or", "IN": "in"}
"""What other languages write, and what a filter does."""


def _hint(where: str, found: _Token) -> str:
    """The end of a message about a slip of the pen: what to write for the token that was found; empty for another mistake."""
    if found.text == "(" and where[: found.at].split()[-1:] == ["in"]:
        return "; write a list as ['a', 'b']"
    pair = where[found.at : found.at + 2] if found.text == "=" else ""
    meant = _SLIPS.get(pair) or _SLIPS.get(found.text)
    return f"; write {meant}" if meant else ""


class _Parser:
    """One method per rule of the grammar; `accept` and `expect` consume a token."""

    def __init__(self, where: str) -> None:
        if len(where) > MAX_LENGTH:
            raise FilterError(where[:40], MAX_LENGTH, f"the end: a filter has {MAX_LENGTH} characters at most", "more")
        self.where = where
        self.position = 0
        self.depth = 0
        self.token = self._next()

    def whole(self) -> Node:
        node = self.any_of()
        if self.token.kind != "end":
            raise self.error("'and', 'or' or the end")
        return node

    def any_of(self) -> Node:
        return self._joined("or", self.all_of)

    def all_of(self) -> Node:
        return self._joined("and", self.negated)

    def _joined(self, word: Literal["and", "or"], part: Callable[[], Node]) -> Node:
        parts = [part()]
        while self.accept(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def negated(self) -> Node:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.error(f"no more than {MAX_NESTING} levels of 'not' and brackets")
        if self.accept("not"):
            node: Node = Not(self.negated())
        elif self.accept("("):
            node = self.any_of()
            self.expect(")")
        else:
            node = self.comparison()
        self.depth -= 1
        return node

    def comparison(self) -> Node:
        left = self.operand()
        negative = self.accept("not")
        if negative and self.token.text != "in":
            raise self.error("'in'")
        operator = next((sign for sign in _OPERATORS if self.accept(sign)), None)
        if operator is None:
            if isinstance(left, Fixed):
                raise self.error(f"one of {' '.join(_OPERATORS)}")
            return Comparison("==", left, Fixed(value=True))
        node = Comparison(operator, left, self.right_side(operator, left))
        return Not(node) if negative else node

    def right_side(self, operator: str, left: Operand) -> Operand:
        before = self.token
        if operator == "in":
            right = self.list_() if self.accept("[") else self.operand()
            if isinstance(right, Fixed) and not isinstance(right.value, tuple):
                raise self.error("a list like ['CH', 'DE'] or a field", before)
            return right
        right = self.operand()
        if isinstance(left, Fixed) and isinstance(right, Fixed):
            raise self.error("a field on one side", before)
        for side in (left, right):
            if operator in _ORDERS and isinstance(side, Fixed) and kind_of(side.value) not in ("number", "text"):
                raise self.error(f"a number or a text beside {operator}", before)
        return right

    def list_(self) -> Fixed:
        values: list[Any] = []
        while not self.accept("]"):
            if values:
                self.expect(",")
            values.append(self.literal("a number, a text, true, false or null").value)
        return Fixed(tuple(values))

    def operand(self) -> Operand:
        token = self.token
        if token.kind == "quoted" or (token.kind == "word" and token.text not in _RESERVED):
            return self.field()
        return self.literal("a field or a value")

    def literal(self, expected: str) -> Fixed:
        token = self.token
        if token.kind == "number":
            value: Any = float(token.text) if set(token.text) & set(".eE") else int(token.text)
        elif token.kind == "text":
            value = re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)
        elif token.kind == "word" and token.text in _WORDS:
            value = _WORDS[token.text]
        else:
            raise self.error(expected)
        self.token = self._next()
        return Fixed(value)

    def field(self) -> Field:
        path: list[str | int] = [self.name()]
        while True:
            if self.accept("."):
                path.append(self.name())
            elif self.accept("["):
                path.append(self.index())
                self.expect("]")
            else:
                return Field(tuple(path))

    def name(self) -> str:
        token = self.token
        if token.kind not in ("word", "quoted") or token.text in _RESERVED:
            raise self.error("the name of a field")
        self.token = self._next()
        return token.text.strip("`")

    def index(self) -> int:
        token = self.token
        if token.kind != "number" or not token.text.isdigit():
            raise self.error("a place in a list, counted from 0")
        self.token = self._next()
        return int(token.text)

    def accept(self, text: str) -> bool:
        """Consume the next token if it is `text`; whether it was."""
        if self.token.kind not in ("word", "sign") or self.token.text != text:
            return False
        self.token = self._next()
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"{text!r}")

    def error(self, expected: str, token: "_Token | None" = None) -> FilterError:
        found = token or self.token
        shown = "the end" if found.kind == "end" else repr(found.text)
        return FilterError(self.where, found.at + 1, expected, shown, _hint(self.where, found))

    def _next(self) -> _Token:
        found = _TOKEN.match(self.where, self.position)
        if found is None or found.lastgroup is None:
            raise AssertionError
        self.position = found.end()
        return _Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))
