"""Writes syntax trees as text, in lines of at most 100 characters, as a formatter does."""

import ast
import itertools
import json
from collections.abc import Sequence
from typing import TypeVar

WIDTH = 100
STEP = "    "

Part = TypeVar("Part")


def call(function: ast.expr, args: Sequence[ast.expr] = (), keywords: Sequence[ast.keyword] = ()) -> ast.Call:
    return ast.Call(func=function, args=list(args), keywords=list(keywords))


def name(identifier: str) -> ast.Name:
    return ast.Name(id=identifier, ctx=ast.Load())


def attribute(value: ast.expr, identifier: str) -> ast.Attribute:
    return ast.Attribute(value=value, attr=identifier, ctx=ast.Load())


def item(value: ast.expr, key: str) -> ast.Subscript:
    return ast.Subscript(value=value, slice=constant(key), ctx=ast.Load())


def constant(value: str | float | None) -> ast.Constant:
    return ast.Constant(value=value)


def items(*elements: ast.expr) -> ast.List:
    return ast.List(elts=list(elements), ctx=ast.Load())


def keyword(option: str, value: ast.expr) -> ast.keyword:
    return ast.keyword(arg=option, value=value)


def statement(prefix: str, node: ast.expr, indent: str, suffix: str = "") -> list[str]:
    """A statement that ends in an expression, such as `x = …` or `with … as dag:`."""
    return (indent + prefix + written(node, indent, len(indent + prefix), len(suffix)) + suffix).split("\n")


def written(node: ast.expr, indent: str, column: int, room_after: int = 0) -> str:
    """The text of an expression that begins at a column; further lines are at the indentation."""
    flat_text = flat(node)
    if "\n" not in flat_text and column + len(flat_text) + room_after <= WIDTH:
        return flat_text
    match node:
        case ast.Call(args=[], keywords=[]):
            return flat_text
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr=method)):
            tail = flat(call(name("f"), node.args, node.keywords)).removeprefix("f")
            return f"{_exploded_call(inner, indent)}.{method}{tail}"
        case ast.Call():
            return _exploded_call(node, indent)
        case ast.List(elts=[_, *_]) | ast.Set():
            brackets = "[]" if isinstance(node, ast.List) else "{}"
            return _exploded(brackets[0], [("", element) for element in node.elts], brackets[1], indent)
        case ast.Dict(keys=[_, *_]):
            return _exploded("{", [(_key(key), value) for key, value in zip(node.keys, node.values, strict=True)], "}", indent)
        case ast.BinOp():
            return _chain(node, indent)
        case _:
            return flat_text


def flat(node: ast.AST) -> str:
    """An expression on one line, except for strings of several lines; with double quotes."""
    marked = _Strings()
    text = ast.unparse(marked.visit(copied(node)))
    for mark, string in reversed(marked.strings):
        text = text.replace(mark, string)
    return text


def copied(part: Part) -> Part:
    """A copy of a node, or of a list of nodes, with all below it; `copy.deepcopy` takes three times as long."""
    if isinstance(part, list):
        return part.__class__(map(copied, part))
    if not isinstance(part, ast.AST):
        return part
    copy = part.__class__.__new__(part.__class__)  # without arguments, later versions of Python warn of missing fields
    vars(copy).update({name: copied(value) for name, value in vars(part).items()})
    return copy


def operator_symbol(operator: ast.operator) -> str:
    return ast.unparse(ast.BinOp(left=name("a"), op=operator, right=name("b")))[1:-1].strip()


def target(node: ast.expr) -> str:
    """The left side of an assignment; a tuple goes without parentheses."""
    text = flat(node)
    return text[1:-1].rstrip(",") if isinstance(node, ast.Tuple) and len(node.elts) > 1 else text


def quoted(value: str) -> str:
    """A string literal; one of several lines is triple-quoted if it needs no escapes."""
    plain = all(character.isprintable() or character == "\n" for character in value)
    if "\n" in value.strip("\n") and plain and not any(part in value for part in ("\\", '"""')) and not value.endswith('"'):
        return f'"""{value}"""'
    if '"' in value and "'" not in value:
        return repr(value)
    return json.dumps(value, ensure_ascii=False) if plain and "\x7f" not in value else repr(value)


class _Strings(ast.NodeTransformer):
    """Replaces strings by marks, because `ast.unparse` writes single quotes and no lines."""

    def __init__(self) -> None:
        self.strings: list[tuple[str, str]] = []

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self._mark(quoted(node.value)) if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        text = ast.unparse(node)
        simple = text.startswith("f'") and not any(part in text[2:-1] for part in ('"', "\\", "'"))
        return self._mark(f'f"{text[2:-1]}"' if simple else text)

    def _mark(self, text: str) -> ast.Name:
        self.strings.append((f"\0{len(self.strings)}\0", text))
        return name(self.strings[-1][0])


def _exploded(opening: str, parts: Sequence[tuple[str, ast.expr]], closing: str, indent: str) -> str:
    inner = indent + STEP
    lines = [f"{inner}{prefix}{written(value, inner, len(inner + prefix), 1)}," for prefix, value in parts]
    return "\n".join([opening, *lines, indent + closing])


def _exploded_call(node: ast.Call, indent: str) -> str:
    arguments = [*(("", arg) for arg in node.args), *((_prefix(option), option.value) for option in node.keywords)]
    return _exploded(f"{flat(node.func)}(", arguments, ")", indent)


def _prefix(option: ast.keyword) -> str:
    return "**" if option.arg is None else f"{option.arg}="


def _key(key: ast.expr | None) -> str:
    return "**" if key is None else f"{flat(key)}: "


def _chain(node: ast.BinOp, indent: str) -> str:
    """Operands of one operator below each other, in parentheses."""
    operator = type(node.op)
    operands: list[ast.expr] = []
    left: ast.expr = node
    while isinstance(left, ast.BinOp) and isinstance(left.op, operator):
        operands.insert(0, left.right)
        left = left.left
    symbol = operator_symbol(node.op)
    inner = indent + STEP
    parts = zip(itertools.chain([""], itertools.repeat(f"{symbol} ")), [left, *operands], strict=False)
    lines = [f"{inner}{prefix}{_operand(value, inner + prefix)}" for prefix, value in parts]
    return "\n".join(["(", *lines, indent + ")"])


def _operand(node: ast.expr, before: str) -> str:
    text = written(node, before[: len(before) - len(before.lstrip())], len(before))
    return f"({text})" if isinstance(node, ast.BinOp | ast.BoolOp | ast.IfExp | ast.Compare) and text[0] != "(" else text
