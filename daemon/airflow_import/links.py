"""The order of tasks: `chain`, `cross_downstream`, `set_upstream` and `set_downstream` as `>>`."""

import ast
import itertools
from collections.abc import Sequence

from tidegate.daemon.airflow_import import layout
from tidegate.daemon.airflow_import.arguments import take
from tidegate.daemon.airflow_import.bridges import bridge
from tidegate.daemon.airflow_import.context import Context, DagName, GroupName
from tidegate.daemon.airflow_import.layout import name
from tidegate.daemon.airflow_import.report import LeftOutError, left_out, omission
from tidegate.daemon.airflow_import.unsupported import leave_out_arguments
from tidegate.daemon.airflow_import.vocabulary import OPERATOR_HINTS

_CHAINS = ("chain", "chain_linear", "cross_downstream")


def is_order(context: Context, node: ast.expr) -> bool:
    """Whether an expression says nothing but the order of tasks."""
    match node:
        case ast.Call(func=ast.Attribute(attr="set_downstream" | "set_upstream")):
            return bool(node.args or node.keywords)
        case ast.Call():
            return context.airflow_name(node.func) in _CHAINS
        case _:
            return isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift | ast.LShift)


def order_lines(context: Context, node: ast.expr) -> list[str] | None:
    """The statements of an order; None if it stays as it is. Raises LeftOutError for a chain of lists of other lengths."""
    if isinstance(node, ast.Call) and context.airflow_name(node.func) in _CHAINS:
        return _chain_lines(context, node)
    steps = _steps(context, node)
    if len(steps) < 2:
        only = steps[0][1] if steps else None
        return [] if only is None or isinstance(only, ast.Name) else layout.statement("", only, context.indent)
    if any(isinstance(part, ast.List) and _holds_group(context, part) for _, part in steps):
        pairs = ((before, operator, after) for (_, before), (operator, after) in itertools.pairwise(steps))
        return [line for before, operator, after in pairs for line in _each_group(context, before, operator, after)]
    linked = _joined(steps)
    return None if ast.dump(linked) == ast.dump(node) else layout.statement("", linked, context.indent)


def order(context: Context, node: ast.expr) -> ast.expr:
    """An order as a part of a statement; its value is the last task, as in Airflow."""
    return _joined(_steps(context, node))


Step = tuple[ast.operator, ast.expr]
"""Tasks, and the operator before them."""


def _joined(steps: Sequence[Step]) -> ast.expr:
    linked = steps[0][1]
    for operator, part in steps[1:]:
        linked = ast.BinOp(left=linked, op=operator, right=part)
    return linked


def _steps(context: Context, node: ast.expr) -> list[Step]:
    """The operands of an order from left to right: without labels, and without the DAG that only takes the tasks in."""
    steps: list[Step] = []
    for operator, operand in _operands(context, node):
        if _is_label(context, operand):
            context.leave_out(omission(operand, ast.unparse(operand), *OPERATOR_HINTS["Label"]))
        elif not (isinstance(operand, ast.Name) and isinstance(context.bindings.get(operand.id), DagName)):
            steps.append((operator, linked_part(context, operand)))
    return [step for step in steps if not (isinstance(step[1], ast.List) and not step[1].elts)]


def _operands(context: Context, node: ast.expr) -> list[Step]:
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="set_downstream" | "set_upstream" as method)):
            named, rest = take(node.keywords, "task_or_task_list")
            kept = 1 if named is None else 0
            leave_out_arguments(context, ast.Call(func=node.func, args=node.args, keywords=rest), method, after=kept)
            other = node.args[0] if named is None else named
            return [(ast.RShift(), value), (ast.RShift() if method == "set_downstream" else ast.LShift(), other)]
        case ast.BinOp(op=ast.RShift() | ast.LShift()):
            return [*_operands(context, node.left), (node.op, node.right)]
        case _:
            return [(ast.RShift(), node)]


def linked_part(context: Context, node: ast.expr) -> ast.expr:
    """Tasks in an order. In place of one that has no equivalent comes a task that fails: what is before and after it stays so."""
    if isinstance(node, ast.List | ast.Tuple):
        return ast.List(elts=[linked_part(context, element) for element in node.elts], ctx=ast.Load())
    try:
        call_without_result(context, node)
        return order(context, node) if is_order(context, node) else context.translate(node)
    except LeftOutError as left:
        if context.dag is None or isinstance(node, ast.Starred):
            raise
        return name(bridge(context, node, left))


def call_without_result(context: Context, node: ast.expr) -> None:
    """Write a call of a function that makes tasks and has lost what it returns. Raises LeftOutError after that."""
    if not isinstance(node, ast.Call):
        return
    found = context.found_elsewhere(node.func)
    lacking = found[0].without_result if found is not None else context.without_result
    called = found[1] if found is not None else node.func.id if isinstance(node.func, ast.Name) else ""
    if called in lacking:
        context.emit(layout.statement("", context.translate(node), context.indent))
        raise left_out(node, f"what {called} returns was left out", "translate its return first")


def _holds_group(context: Context, part: ast.List) -> bool:
    names = (element.id for element in part.elts if isinstance(element, ast.Name))
    return any(isinstance(context.bindings.get(identifier), GroupName) for identifier in names)


def _each_group(context: Context, before: ast.expr, operator: ast.operator, after: ast.expr) -> list[str]:
    """A group is linked by itself, and not in a list."""
    lefts, rights = (_apart(context, part) for part in (before, after))
    pairs = itertools.product(lefts, rights)
    return [
        line
        for left, right in pairs
        for line in layout.statement("", ast.BinOp(left=left, op=operator, right=right), context.indent)
    ]


def _apart(context: Context, part: ast.expr) -> list[ast.expr]:
    return part.elts if isinstance(part, ast.List) and _holds_group(context, part) else [part]


def _is_label(context: Context, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and context.airflow_name(node.func) == "Label"


def _chain_lines(context: Context, node: ast.Call) -> list[str]:
    kind = context.airflow_name(node.func)
    leave_out_arguments(context, node, kind or "chain", after=len(node.args), known=("from_tasks", "to_tasks"))
    if len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
        return _starred(context, node.args[0].value)
    if kind == "cross_downstream" and node.keywords:
        named = {option.arg: option.value for option in node.keywords}
        node = ast.Call(
            func=node.func, args=[*node.args, *(named[key] for key in ("from_tasks", "to_tasks") if key in named)], keywords=[]
        )
    given = [arg for arg in node.args if not _is_label(context, arg)]
    for label in (arg for arg in node.args if arg not in given):
        context.leave_out(omission(label, ast.unparse(label), *OPERATOR_HINTS["Label"]))
    parts = [linked_part(context, arg) for arg in given]
    if any(isinstance(part, ast.Starred) for part in parts):
        raise left_out(node, "the file does not say which tasks it links", "write a loop with >>")
    lists = any(_is_list(left) and _is_list(right) for left, right in itertools.pairwise(parts))
    if kind == "chain" and not lists and not any(isinstance(part, ast.List) and _holds_group(context, part) for part in parts):
        return layout.statement("", _shifted(parts), context.indent)
    return [line for left, right in itertools.pairwise(parts) for line in _pair(context, node, left, right, kind)]


def _shifted(parts: Sequence[ast.expr]) -> ast.expr:
    first, *rest = parts
    for part in rest:
        first = ast.BinOp(left=first, op=ast.RShift(), right=part)
    return first


def _pair(context: Context, node: ast.Call, left: ast.expr, right: ast.expr, kind: str | None) -> list[str]:
    """Two lists: pairwise in a chain, each with each otherwise."""
    left, right = (part.elts[0] if isinstance(part, ast.List) and len(part.elts) == 1 else part for part in (left, right))
    lefts = left.elts if isinstance(left, ast.List) else [left]
    rights = right.elts if isinstance(right, ast.List) else [right]
    if kind == "chain" and len(lefts) > 1 and len(rights) > 1:
        if len(lefts) != len(rights):
            raise left_out(node, "its lists have different lengths", "link the tasks with >>")
        pairs = list(zip(lefts, rights, strict=True))
    elif len(lefts) > 1 and len(rights) > 1:
        pairs = [(before, right) for before in lefts]
    else:
        pairs = [(left, right)]
    return [line for before, after in pairs for line in _each_group(context, before, ast.RShift(), after)]


def _starred(context: Context, node: ast.expr) -> list[str]:
    pairwise = layout.call(context.need("itertools", "pairwise"), [context.translate(node)])
    head = layout.statement("for before, after in ", pairwise, context.indent, ":")
    return [*head, f"{context.indent}    before >> after"]


def _is_list(node: ast.expr) -> bool:
    return isinstance(node, ast.List)
