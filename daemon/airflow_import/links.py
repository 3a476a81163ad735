"""The order of tasks: `chain`, `cross_downstream`, `set_upstream` and `set_downstream` as `>>`."""

import ast
import itertools
from collections.abc import Sequence

from tidegate.daemon.airflow_import import layout
from tidegate.daemon.airflow_import.arguments import take
from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.report import left_out, omission
from tidegate.daemon.airflow_import.unsupported import leave_out_arguments
from tidegate.daemon.airflow_import.vocabulary import OPERATOR_HINTS

_CHAINS = ("chain", "chain_linear", "cross_downstream")


def is_chain(context: Context, node: ast.Call) -> bool:
    return context.airflow_name(node.func) in _CHAINS


def chain_lines(context: Context, node: ast.Call) -> list[str]:
    """The statements of a chain. Raises LeftOutError for one whose lists have other lengths."""
    kind = context.airflow_name(node.func)
    leave_out_arguments(context, node, kind or "chain", after=len(node.args), known=("from_tasks", "to_tasks"))
    if len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
        return _starred(context, node.args[0].value)
    if kind == "cross_downstream" and node.keywords:
        named = {option.arg: option.value for option in node.keywords}
        node = ast.Call(
            func=node.func, args=[*node.args, *(named[key] for key in ("from_tasks", "to_tasks") if key in named)], keywords=[]
        )
    parts = [_lists(context.translate(arg)) for arg in node.args]
    if any(isinstance(part, ast.Starred) for part in parts):
        raise left_out(node, "the file does not say which tasks it links", "write a loop with >>")
    if kind == "chain" and not any(_is_list(left) and _is_list(right) for left, right in itertools.pairwise(parts)):
        return layout.statement("", _shifted(parts), context.indent)
    return [line for left, right in itertools.pairwise(parts) for line in _pair(context, node, left, right, kind)]


def set_order(context: Context, node: ast.expr) -> ast.expr | None:
    """`a.set_downstream(b)` as `a >> b`; None for another expression."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="set_downstream" | "set_upstream" as method)) if (
            node.args or node.keywords
        ):
            named, rest = take(node.keywords, "task_or_task_list")
            leave_out_arguments(
                context, ast.Call(func=node.func, args=node.args, keywords=rest), method, after=1 if named is None else 0
            )
            if named is None and not node.args:
                return None
            other = _lists(context.translate(node.args[0] if named is None else named))
            operator = ast.RShift() if method == "set_downstream" else ast.LShift()
            return ast.BinOp(left=context.translate(value), op=operator, right=other)
        case ast.BinOp(op=ast.RShift() | ast.LShift()):
            return _linked(context, node)
        case _:
            return None


def _linked(context: Context, node: ast.BinOp) -> ast.expr | None:
    """`a >> Label("x") >> b` without the label; None if there is no label."""
    if not any(_is_label(context, child) for child in ast.walk(node)):
        return None
    first, *rest = _operands(node, node.op)
    linked = context.translate(first[1])
    for operator, operand in rest:
        if _is_label(context, operand):
            context.leave_out(omission(operand, ast.unparse(operand), *OPERATOR_HINTS["Label"]))
        else:
            linked = ast.BinOp(left=linked, op=operator, right=context.translate(operand))
    return linked


def _operands(node: ast.expr, operator: ast.operator) -> list[tuple[ast.operator, ast.expr]]:
    """The operands from left to right, each with the operator before it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift | ast.LShift):
        return [*_operands(node.left, node.op), (node.op, node.right)]
    return [(operator, node)]


def _is_label(context: Context, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and context.airflow_name(node.func) == "Label"


def _shifted(parts: Sequence[ast.expr]) -> ast.expr:
    first, *rest = parts
    for part in rest:
        first = ast.BinOp(left=first, op=ast.RShift(), right=part)
    return first


def _pair(context: Context, node: ast.Call, left: ast.expr, right: ast.expr, kind: str | None) -> list[str]:
    """Two lists: pairwise in a chain, each with each otherwise."""
    lefts = left.elts if isinstance(left, ast.List) else [left]
    rights = right.elts if isinstance(right, ast.List) else [right]
    if kind == "chain" and len(lefts) > 1 and len(rights) > 1:
        if len(lefts) != len(rights):
            raise left_out(node, "its lists have different lengths", "link the tasks with >>")
        pairs = [_shifted(pair) for pair in zip(lefts, rights, strict=True)]
    else:
        pairs = (
            [_shifted([before, right]) for before in lefts] if len(lefts) > 1 and len(rights) > 1 else [_shifted([left, right])]
        )
    return [line for pair in pairs for line in layout.statement("", pair, context.indent)]


def _starred(context: Context, node: ast.expr) -> list[str]:
    pairwise = layout.call(context.need("itertools", "pairwise"), [context.translate(node)])
    head = layout.statement("for before, after in ", pairwise, context.indent, ":")
    return [*head, f"{context.indent}    before >> after"]


def _is_list(node: ast.expr) -> bool:
    return isinstance(node, ast.List)


def _lists(node: ast.expr) -> ast.expr:
    """A tuple of tasks as a list."""
    return ast.List(elts=node.elts, ctx=ast.Load()) if isinstance(node, ast.Tuple) else node
