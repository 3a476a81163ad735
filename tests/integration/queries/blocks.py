"""All SQL of the product: the blocks of its `.sql` files, and what its query modules make of their rows."""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from types import ModuleType
from typing import NamedTuple, TypeAlias

import asyncpg
import msgspec

from tidegate.daemon.perform import PERFORM, Statement
from tidegate.schemas.queries import clock, sql

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

TOPICS = sorted(
    entry.name.removesuffix(".sql") for entry in files("tidegate.schemas.queries").iterdir() if entry.name.endswith(".sql")
)
BLOCKS = {f"{topic}.{name}": text for topic in TOPICS for name, text in sql.load(topic).items()}
BLOCKS["clock.next_due"] = clock.FIRST_DUE


PERFORMED = {act.name: act for _, act in PERFORM if isinstance(act, Statement)}
"""The statements that effects are written with."""


class Made(NamedTuple):
    """A row type and the statement whose rows it is made of, by position."""

    row: type[msgspec.Struct]
    statement: str


def module_of(topic: str) -> ModuleType:
    return import_module(f"tidegate.schemas.queries.{topic}")


def made() -> Iterator[tuple[str, Made]]:
    """Every function that makes `Row(*row)` of what it fetches, by name."""
    for topic in TOPICS:
        module = module_of(topic)
        for function in ast.parse(inspect.getsource(module)).body:
            if isinstance(function, ast.AsyncFunctionDef):
                yield from ((f"{topic}.{function.name}", pair) for pair in _made_in(function, module))


def _made_in(function: ast.AsyncFunctionDef, module: ModuleType) -> Iterator[Made]:
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    statements = [name for call in calls if _fetches(call) for name in _names_under(call.args[0])]
    rows = [call.func.id for call in calls if isinstance(call.func, ast.Name) and _spreads_a_row(call)]
    for row in rows:
        type_ = getattr(module, row)
        if isinstance(type_, type) and issubclass(type_, msgspec.Struct) and len(statements) == 1:
            yield Made(type_, module._SQL[statements[0]])


def names_in(module: ModuleType) -> Iterator[str]:
    """The statements that a module names, `_SQL["name"]`."""
    return _names_under(ast.parse(inspect.getsource(module)))


def written_in_modules() -> Iterator[str]:
    """The statements that query modules give to `write`."""
    for topic in TOPICS:
        for node in ast.walk(ast.parse(inspect.getsource(module_of(topic)))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "write":
                yield from (f"{topic}.{name}" for name in _names_under(node.args[0]))


def _names_under(root: ast.AST) -> Iterator[str]:
    for node in ast.walk(root):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "_SQL":
            if not isinstance(node.slice, ast.Constant):
                raise TypeError(f"{ast.unparse(node)} does not name its statement")
            yield str(node.slice.value)


def _fetches(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "fetch"


def _spreads_a_row(call: ast.Call) -> bool:
    return len(call.args) == 1 and isinstance(call.args[0], ast.Starred) and ast.unparse(call.args[0]) == "*row"
