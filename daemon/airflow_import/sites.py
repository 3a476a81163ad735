"""What the reader of an order finds: tasks and edges, and the calls that make them."""

import ast
from collections.abc import Iterator, Sequence

import msgspec

_EMPTY = frozenset({"EmptyOperator", "DummyOperator"})


class TaskSite(msgspec.Struct, frozen=True):
    """A place that makes tasks: its lines, the pattern of their ids, and what makes them."""

    line: int
    end_line: int
    pattern: str
    kind: str

    @property
    def is_real(self) -> bool:
        return self.kind not in _EMPTY


class Edge(msgspec.Struct, frozen=True):
    """One task before another, on these lines. `is_certain`: the file has it whenever it is read."""

    line: int
    end_line: int
    before: str
    after: str
    is_certain: bool


class Reading(msgspec.Struct, frozen=True):
    """`unclear` are the lines that link what the reader does not know."""

    tasks: tuple[TaskSite, ...]
    edges: tuple[Edge, ...]
    unclear: tuple[tuple[int, int], ...]
    dags: int


def parts_of(node: ast.expr) -> Sequence[ast.expr]:
    """What a value that holds others holds."""
    match node:
        case ast.List() | ast.Tuple() | ast.Set():
            return node.elts
        case ast.Dict():
            return node.values
        case ast.BinOp(op=ast.Add()):
            return [node.left, node.right]
        case ast.IfExp():
            return [node.body, node.orelse]
        case _:
            return ()


def unwound(node: ast.Call) -> tuple[ast.expr, list[ast.Call]]:
    """`f` of `f.override(…).partial(…).expand(…)`, and the calls from the last to the first."""
    calls, current = [node], node.func
    while isinstance(current, ast.Attribute) and current.attr in ("expand", "expand_kwargs", "partial", "override"):
        current = current.value
        if isinstance(current, ast.Call):
            calls.append(current)
            current = current.func
    if isinstance(current, ast.Call) and isinstance(current.func, ast.Attribute) and current.func.attr == "override":
        return current.func.value, [*calls, current]
    return current, calls


def overridden(calls: Sequence[ast.Call]) -> dict[str | None, ast.expr]:
    made = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "override"]
    return {option.arg: option.value for call in made for option in call.keywords}


def results_in(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of an argument that may be the result of a task: names, `task.output` and calls."""
    match node:
        case ast.Name() | ast.Call():
            yield node
        case ast.Attribute(attr="output", value=value):
            yield value
        case ast.Subscript(value=value):
            yield from results_in(value)
        case ast.List() | ast.Tuple():
            for element in node.elts:
                yield from results_in(element)
        case ast.Dict():
            for value in node.values:
                yield from results_in(value)
        case _:
            pass
