"""What an import leaves out, and why."""

import ast
import textwrap
from collections.abc import Iterable

import msgspec


class Omission(msgspec.Struct, frozen=True, order=True):
    """A part of an Airflow file without an equivalent: its lines, what it is, why it is left out, and what to do instead."""

    line: int
    end_line: int
    what: str
    why: str
    instead: str

    def remark(self) -> list[str]:
        """The comment at the place of a statement or task that was left out."""
        text = f"Not translated (line {self.line}): {self.what}. Why: {self.why}. Instead: {self.instead}."
        return textwrap.wrap(text, 90, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)


class LeftOutError(Exception):
    """The smallest part around an expression that can be left out, a keyword or a statement, has to be."""

    def __init__(self, omission: Omission) -> None:
        super().__init__(omission.what)
        self.omission = omission


class Translation(msgspec.Struct, frozen=True):
    """The text of a Tidegate file, and what it lacks, in the order of the lines."""

    text: str
    omissions: tuple[Omission, ...]


def omission(node: ast.AST, what: str, why: str, instead: str) -> Omission:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    line = min([getattr(node, "lineno", 1), *(decorator.lineno for decorator in decorators)])
    return Omission(line, getattr(node, "end_lineno", None) or line, " ".join(what.split())[:200], why, instead)


def left_out(node: ast.AST, why: str, instead: str, what: str = "") -> LeftOutError:
    """The error to raise for an expression; it is named by its own text unless `what` names it."""
    return LeftOutError(omission(node, what or shown(node), why, instead))


def shown(node: ast.AST) -> str:
    """The text of a node on one line of at most 80 characters."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def ordered(omissions: Iterable[Omission]) -> tuple[Omission, ...]:
    return tuple(sorted(set(omissions)))
