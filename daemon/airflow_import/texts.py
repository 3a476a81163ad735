"""Values as the texts that Tidegate takes, where Airflow takes any value: those of settings, arguments and variables."""

import ast
from collections.abc import Iterator
from typing import TypeVar

from tidegate.daemon.airflow_import.arguments import template
from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.layout import call, constant, name
from tidegate.daemon.airflow_import.report import left_out
from tidegate.daemon.airflow_import.variables import secret_name

Node = TypeVar("Node", ast.expr, ast.expr | None)

Pair = tuple[ast.expr | None, ast.expr]
"""A name and a value; without a name, a dict that is unpacked."""


def text_values(context: Context, node: ast.expr) -> ast.expr:
    """A dict, such as that of variables, with its values as texts."""
    node = with_literals(context, node)
    if not isinstance(node, ast.Dict):
        written = template(context, node)
        if isinstance(written, ast.Constant):
            raise left_out(node, "variables are a dict in the file", "read the result in a function, and run the program there")
        return written
    pairs = [_variable(context, key, value) for key, value in pairs_of(context, node)]
    return ast.Dict(keys=[key for key, _ in pairs], values=[value for _, value in pairs])


def _variable(context: Context, key: ast.expr | None, value: ast.expr) -> Pair:
    """A variable of the environment; one of Airflow's variables is a secret."""
    secret = secret_name(context, value) if key is not None else None
    if secret is None or key is None:
        return text_pair(context, key, value)
    return context.translate(key), call(context.need("tidegate", "Secret"), [constant(secret)])


def text_pair(context: Context, key: ast.expr | None, value: ast.expr) -> Pair:
    """A key, and its value as a text."""
    return (None, template(context, value)) if key is None else (context.translate(key), as_text(context, value))


def pairs_of(context: Context, node: ast.Dict) -> Iterator[Pair]:
    """The keys and values of a dict, with those of a dict in it that has a value to be written as text."""
    for key, value in zip(node.keys, node.values, strict=True):
        held = value if key else with_literals(context, value)
        if key is None and isinstance(held, ast.Dict) and None not in held.keys:
            yield from zip(held.keys, held.values, strict=True)
        else:
            yield key, value


def with_literals(context: Context, node: Node) -> Node | ast.Dict:
    """The dict that a variable holds, if a value of it has to be written as text."""
    held = _held(context, node)
    return held if isinstance(held, ast.Dict) and not all(map(_is_text, held.values)) else node


def as_text(context: Context, node: ast.expr) -> ast.expr:
    """A literal as the text that spark-submit gets; any other value through `str`, unless it is a text already."""
    match node:
        case ast.Constant(value=bool()):
            return constant(str(node.value).lower())
        case ast.Constant(value=int() | float()):
            return constant(str(node.value))
        case ast.Constant() | ast.JoinedStr() | ast.Starred():
            return template(context, node)
        case _:
            written = template(context, node)
            return written if _is_text(_held(context, node)) or _is_text(written) else call(name("str"), [written])


def _held(context: Context, node: ast.expr | None) -> ast.expr | None:
    """The value of a variable that the file sets once."""
    return context.facts.constants.get(node.id) if isinstance(node, ast.Name) else None


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
