"""Statements with blocks: DAGs and groups, loops, conditions, `try` and `with`."""

import ast
import itertools
import re
from collections.abc import Sequence

from tidegate.daemon.airflow_import import layout
from tidegate.daemon.airflow_import.arguments import take
from tidegate.daemon.airflow_import.context import Context, DagName, Lost, Place, lost_names
from tidegate.daemon.airflow_import.dags import dag_call
from tidegate.daemon.airflow_import.facts import stored_names
from tidegate.daemon.airflow_import.groups import group_options, inside_group, write_group
from tidegate.daemon.airflow_import.layout import keyword
from tidegate.daemon.airflow_import.report import left_out
from tidegate.daemon.airflow_import.unsupported import leave_out_positional

_BRANCH = re.compile(r"\s*(try|except.*|else|finally):$")


def write_with(context: Context, node: ast.With) -> None:
    """Blocks of DAGs and groups; any other block keeps its head."""
    first = node.items[0]
    class_name = context.airflow_name(first.context_expr.func) if isinstance(first.context_expr, ast.Call) else None
    variable = first.optional_vars.id if isinstance(first.optional_vars, ast.Name) else ""
    if len(node.items) == 1 and class_name == "DAG" and isinstance(first.context_expr, ast.Call):
        _write_dag(context, node, first.context_expr, variable)
    elif len(node.items) == 1 and class_name == "TaskGroup" and isinstance(first.context_expr, ast.Call):
        _write_task_group(context, node, first.context_expr, variable)
    elif isinstance(first.context_expr, ast.Name) and isinstance(dag := context.bindings.get(first.context_expr.id), DagName):
        _write_opened_dag(context, node, dag)
    else:
        _write_other_with(context, node)


def _write_dag(context: Context, node: ast.With, made: ast.Call, variable: str) -> None:
    chosen = variable or ("dag" if "dag" not in context.taken else context.fresh("dag"))
    written, dag = dag_call(context, made, chosen)
    context.dags[chosen] = dag
    _emit_head(context, node, layout.statement("with ", written, context.indent, f" as {chosen}:"))
    context.bind(chosen, dag)
    with context.within(dag), context.indented():
        context.write_body(node.body)


def _write_opened_dag(context: Context, node: ast.With, dag: DagName) -> None:
    context.emit([f"{context.indent}with {dag.name}:"])
    with context.within(dag), context.indented():
        context.write_body(node.body)


def _write_task_group(context: Context, node: ast.With, made: ast.Call, variable: str) -> None:
    options = [*(keyword("group_id", arg) for arg in made.args[:1]), *made.keywords]
    group_id, rest = take(options, "group_id")
    if group_id is None:
        raise left_out(made, "it has no group_id", "write an id")
    leave_out_positional(context, made.args[1:], "TaskGroup")
    group_options(context, rest)
    _emit_head(context, node, [])
    heads, context.heads = context.heads, [*context.heads, Place(len(context.lines), context.indent, context.group, node.lineno)]
    write_group(context, group_id, variable or None)
    with inside_group(context, group_id), context.indented():
        context.write_body(node.body)
    context.heads = heads


def _write_other_with(context: Context, node: ast.With) -> None:
    heads = [context.translate(with_item.context_expr) for with_item in node.items]
    for with_item, head in zip(node.items, heads, strict=True):
        if isinstance(head, ast.Name) and head.id in context.tasks:
            raise left_out(
                with_item.context_expr, "a setup has no block of its own", "link it, and name it in as_teardown(setups=…)"
            )
    _write_with_head(context, node, heads)


def _emit_head(context: Context, node: ast.With, lines: list[str]) -> None:
    source = context.source
    end = max(with_item.context_expr.end_lineno or node.lineno for with_item in node.items)
    inside = [source.comments.get(line) or source.trailing.get(line) for line in range(node.lineno, end + 1)]
    context.emit([*(context.indent + comment for comment in inside if comment), *lines])


def write_compound(context: Context, node: ast.For | ast.While | ast.If | ast.Try) -> None:
    """The head with its expressions translated, then each block of the statement."""
    before, context.lost = context.lost, {}
    _write_kind(context, node)
    # A name that one branch has lost may be missing after all of them.
    names = {found.id for found in ast.walk(node) if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store)}
    context.bindings |= {name: binding for name, binding in context.lost.items() if name in names}
    context.lost = before


def _write_kind(context: Context, node: ast.For | ast.While | ast.If | ast.Try) -> None:
    match node:
        case ast.If() if _is_main(node):
            raise left_out(node, "a DAG file is not run as a program", "use `tidegate check`, and `tidegate runs trigger`")
        case ast.For():
            _write_for(context, node)
        case ast.While():
            _write_condition(context, node, "while")
        case ast.If():
            _write_condition(context, node, "if")
        case ast.Try():
            _write_try(context, node)


def _write_for(context: Context, node: ast.For) -> None:
    """Functions in the loop keep the values that its variables have when they are written."""
    outer = context.loops
    target = [child.id for child in ast.walk(node.target) if isinstance(child, ast.Name)]
    iterated = _iterated(context, node.iter)
    for identifier in target:
        context.bind(identifier)
    context.loops = (*outer, *target)
    heads, context.heads = context.heads, [*context.heads, Place(len(context.lines), context.indent, context.group)]
    context.emit(layout.statement(f"for {layout.target(node.target)} in ", iterated, context.indent, ":"))
    before = set(context.stale)
    context.stale |= {name for name, _ in stored_names(node, context.facts.task_functions) if name in context.tasks}
    context.rounds += 1
    _write_branch(context, node.body)
    context.rounds -= 1
    context.stale = before
    context.heads = heads
    context.loops = outer
    _write_else(context, "else", node.orelse)


def _iterated(context: Context, node: ast.expr) -> ast.expr:
    """What a loop goes over. A task that fails in place of a lost collection is its only element."""
    iterated = context.translate(node)
    if isinstance(iterated, ast.Name) and iterated.id in context.bridges:
        return layout.items(iterated)
    lost = next((part for part in ast.walk(iterated) if isinstance(part, ast.Name) and part.id in context.bridges), None)
    if lost is not None:
        raise left_out(node, f"the file does not say which tasks {lost.id} holds", "write the loop by hand")
    return iterated


def _is_main(node: ast.If) -> bool:
    return any(isinstance(child, ast.Name) and child.id == "__name__" for child in ast.walk(node.test))


def _write_condition(context: Context, node: ast.While | ast.If, word: str) -> None:
    context.emit(layout.statement(f"{word} ", context.translate(node.test), context.indent, ":"))
    _write_branch(context, node.body)
    if isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If) and not _is_main(node.orelse[0]):
        _write_condition(context, node.orelse[0], "elif")
        return
    _write_else(context, "else", node.orelse)


def _write_try(context: Context, node: ast.Try) -> None:
    before = len(context.lines)
    context.emit([f"{context.indent}try:"])
    context.optional += 1
    _write_branch(context, node.body)
    context.optional -= 1
    for handler in node.handlers:
        kind = f" {layout.flat(context.translate(handler.type))}" if handler.type else ""
        context.emit([f"{context.indent}except{kind}{f' as {handler.name}' if handler.name else ''}:"])
        context.bound |= {handler.name} if handler.name else set()
        _write_branch(context, handler.body)
    _write_else(context, "else", node.orelse)
    _write_else(context, "finally", node.finalbody)
    if all(line.strip() == "pass" or _BRANCH.match(line) for line in context.lines[before:]):
        # Its branches imported names of Airflow, and nothing else.
        del context.lines[before:]


def _write_with_head(context: Context, node: ast.With, heads: Sequence[ast.expr]) -> None:
    written = [
        layout.flat(head) + (f" as {layout.flat(with_item.optional_vars)}" if with_item.optional_vars else "")
        for with_item, head in zip(node.items, heads, strict=True)
    ]
    for identifier in itertools.chain.from_iterable(lost_names(with_item) for with_item in node.items):
        context.bind(identifier)
    context.emit([f"{context.indent}with {', '.join(written)}:"])
    _write_branch(context, node.body)


def _write_else(context: Context, word: str, body: Sequence[ast.stmt]) -> None:
    if body:
        context.emit([f"{context.indent}{word}:"])
        _write_branch(context, body)


def _write_branch(context: Context, body: Sequence[ast.stmt]) -> None:
    with context.indented():
        context.write_body(body)
    context.lost |= {name: binding for name, binding in context.bindings.items() if isinstance(binding, Lost)}
