"""Goes through a file statement by statement; each is written, translated, or left out with a remark."""

import ast
from collections.abc import Sequence

from tidegate.daemon.airflow_import import layout
from tidegate.daemon.airflow_import.blocks import write_compound, write_with
from tidegate.daemon.airflow_import.bodies import check_function, class_lines, evaluated_parts, is_unavailable
from tidegate.daemon.airflow_import.context import Context, DagName, GroupName, Held, TaskName, lost_names, omitted
from tidegate.daemon.airflow_import.dags import default_arguments
from tidegate.daemon.airflow_import.definitions import is_pending, read_function, read_import
from tidegate.daemon.airflow_import.expressions import translate
from tidegate.daemon.airflow_import.facts import FunctionNode
from tidegate.daemon.airflow_import.functions import holds_task, register
from tidegate.daemon.airflow_import.links import call_without_result, is_order, order, order_lines
from tidegate.daemon.airflow_import.report import LeftOutError, left_out, shown
from tidegate.daemon.airflow_import.source import first_line, last_line
from tidegate.daemon.airflow_import.variables import reads_variables


def write_block(context: Context, body: Sequence[ast.stmt]) -> None:
    """Write the statements of a block at the current indentation; an empty block gets `pass`."""
    first = first_line(body[0]) if body else 1
    while first - 1 in context.source.comments:
        first -= 1
    with context.mark() as before:
        write_statements(context, body, first)
        written = context.lines[before.index :]
    if not any(line.strip() and not line.strip().startswith("#") for line in written):
        context.emit([f"{context.indent}pass"])


def write_statements(context: Context, body: Sequence[ast.stmt], previous: int) -> None:
    """Write statements with the comments before them, the first ones from the line `previous` on."""
    for node in body:
        _write_with_comments(context, node, previous)
        previous = last_line(node) + 1


def _write_with_comments(context: Context, node: ast.stmt, previous: int) -> None:
    """The comments before a statement belong to it; blank lines between statements stay."""
    source = context.source
    first = first_line(node)
    comments = [context.indent + source.comments[line] for line in range(previous, first) if line in source.comments]
    leading = next((line for line in range(previous, first) if line in source.comments), first)
    blanks = [""] * (min(source.blanks_before(leading), 2) if previous <= first else 0)
    start = len(context.lines)
    context.emit([*blanks, *comments])
    body_start = len(context.lines)
    try:
        with context.within(_adopting(context, node)):
            _write(context, node)
    except LeftOutError as left:
        context.leave_out(omitted(node, left, _head_of(context, node)), remark=True)
        context.lacks_result = context.lacks_result or isinstance(node, ast.Return)
        context.lose(lost_names(node), node)
        _hold(context, node)
    if len(context.lines) > body_start:
        return
    if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef):
        del context.lines[start:]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_pending(context, node):
        context.pending[node.name] = [comment.strip() for comment in comments]


def _head_of(context: Context, node: ast.stmt) -> str:
    """The statement on one line; of one with a block, its head."""
    line = context.source.lines[node.lineno - 1].strip()
    if node.end_lineno == node.lineno or line.endswith(":"):
        return line
    return shown(node) if not hasattr(node, "body") else ast.unparse(node).splitlines()[0]


def _hold(context: Context, node: ast.stmt) -> None:
    """A variable whose value only a run has is written where a task reads it."""
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    once = isinstance(target, ast.Name) and context.facts.constants.get(target.id) is not None
    if once and isinstance(node, ast.Assign) and isinstance(target, ast.Name) and reads_variables(context, node.value):
        context.bindings[target.id] = Held(node.value)


def _adopting(context: Context, node: ast.stmt) -> DagName | None:
    """The DAG around a statement, or that which its tasks get by their order."""
    if context.dag is not None or not isinstance(node, ast.Assign | ast.Expr):
        return context.dag
    names = (child.id for child in ast.walk(node) if isinstance(child, ast.Name))
    dags = (context.bindings.get(context.facts.adopted[name]) for name in names if name in context.facts.adopted)
    return next((dag for dag in dags if isinstance(dag, DagName)), None)


def _write(context: Context, node: ast.stmt) -> None:
    """Raises LeftOutError for a statement that has no equivalent as a whole."""
    match node:
        case ast.Import() | ast.ImportFrom():
            read_import(context, node)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            read_function(context, node)
        case ast.With():
            write_with(context, node)
        case ast.For() | ast.While() | ast.If() | ast.Try():
            write_compound(context, node)
        case _:
            _write_simple(context, node)


def _write_simple(context: Context, node: ast.stmt) -> None:
    match node:
        case ast.Assign() | ast.AnnAssign():
            _write_assignment(context, node)
        case ast.Expr():
            _write_expression(context, node)
        case ast.Return(value=ast.expr() as value):
            context.emit_translated(node, layout.statement("return ", context.translate(value), context.indent))
        case ast.AugAssign(target=ast.Name() as target):
            context.translate(layout.name(target.id))
            head, value = f"{target.id} {layout.operator_symbol(node.op)}= ", context.translate(node.value)
            _note_holders(context, [ast.Subscript(value=target, slice=value, ctx=ast.Store())], value)
            context.emit_translated(node, layout.statement(head, value, context.indent))
        case _:
            _write_plain(context, node)


def _write_assignment(context: Context, node: ast.Assign | ast.AnnAssign) -> None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    first = targets[0]
    if node.value is None:
        _write_plain(context, node)
        return
    if isinstance(first, ast.Attribute | ast.Subscript):
        context.translate(first if isinstance(first, ast.Attribute) else first.value)
    variable = first.id if isinstance(first, ast.Name) else ""
    value = _assigned_value(context, node.value, variable)
    if isinstance(value, ast.Name) and value.id == variable and variable in context.tasks:
        return
    named = isinstance(value, ast.Name) and value.id in {*context.tasks, *context.dags} | _groups(context)
    if named and isinstance(value, ast.Name) and variable in context.facts.constants and not context.loops:
        _alias(context, variable, value.id)
        return
    _emit_assignment(context, node, targets, value)
    _bind_targets(context, targets, value)


def _groups(context: Context) -> set[str]:
    return {binding.name for binding in context.bindings.values() if isinstance(binding, GroupName | DagName)}


def _assigned_value(context: Context, node: ast.expr, variable: str) -> ast.expr:
    if variable in context.facts.default_args:
        written = default_arguments(context, node)
        if written is None:
            raise left_out(node, "the file does not say which options it holds", "write a dict of options")
        return written
    if isinstance(node, ast.BinOp) and is_order(context, node) and _links_tasks(context, node):
        return order(context, node)
    call_without_result(context, node)
    return translate(context, node, variable)


def _links_tasks(context: Context, node: ast.expr) -> bool:
    names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    return bool(names & (context.tasks.keys() | context.holders | _groups(context)))


def _alias(context: Context, variable: str, task: str) -> None:
    """A function task has a name already: the variable is another one for it."""
    context.bind(variable, context.tasks.get(task) or context.dags.get(task) or context.bindings.get(task))
    if task in context.group_results:
        context.group_results[variable] = context.group_results[task]


def _emit_assignment(context: Context, node: ast.Assign | ast.AnnAssign, targets: Sequence[ast.expr], value: ast.expr) -> None:
    if node.value is not None and ast.dump(value) == ast.dump(node.value):
        context.emit(context.source.block(node, context.indent))
        return
    left = "".join(f"{layout.target(target)} = " for target in targets)
    context.emit_translated(node, layout.statement(left, value, context.indent))


def _bind_targets(context: Context, targets: Sequence[ast.expr], value: ast.expr) -> None:
    _note_holders(context, targets, value)
    for target in targets:
        stored = [child.id for child in ast.walk(target) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)]
        for identifier in stored:
            context.bind(identifier, context.dags.get(identifier))
        if isinstance(target, ast.Name) and isinstance(value, ast.Name) and value.id in context.tasks:
            context.tasks[target.id] = TaskName(target.id, context.tasks[value.id].task_id)
            context.bind(target.id, context.tasks[target.id])
        elif isinstance(target, ast.Name) and (task_id := _task_id(context, value)) is not None:
            register(context, target.id, task_id)


def _note_holders(context: Context, targets: Sequence[ast.expr], value: ast.expr) -> None:
    """A collection of tasks, or one that gets a task as an element, holds tasks from now on."""
    collections = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.DictComp)
    for target in targets:
        holder = target.value if isinstance(target, ast.Subscript) else target if isinstance(value, collections) else None
        if isinstance(holder, ast.Name) and holds_task(context, value):
            context.holders.add(holder.id)


def _task_id(context: Context, value: ast.expr) -> ast.expr | None:
    """The id in a call such as `dag.command("id", …)`, mapped or not."""
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("expand", "as_setup", "as_teardown")
    ):
        return _task_id(context, value.func.value)
    match value:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=dag), attr="empty" | "command" | "sql" | "submit"), args=[task_id, *_]
        ):
            return task_id if dag in {known.name for known in context.dags.values()} or context.dag else None
        case _:
            return None


def _write_expression(context: Context, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        context.emit(context.source.block(node, context.indent))
        return
    if is_order(context, node.value):
        lines = order_lines(context, node.value)
        if lines is None:
            context.emit(context.source.block(node, context.indent))
        else:
            context.emit_translated(node, lines)
        return
    value = translate(context, node.value)
    if isinstance(value, ast.Name):
        return
    if ast.dump(value) == ast.dump(node.value):
        context.emit(context.source.block(node, context.indent))
        return
    context.emit_translated(node, layout.statement("", value, context.indent))


def _write_plain(context: Context, node: ast.stmt) -> None:
    """Any other statement stays as it is, if all its names are there."""
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.AnnAssign) and child is node.annotation:
            context.future_annotations = context.future_annotations or is_unavailable(context, node.annotation)
        else:
            _check(context, child)
    if isinstance(node, ast.ClassDef):
        _check_methods(context, node)
    for identifier in lost_names(node):
        context.bind(identifier)
    if isinstance(node, ast.ClassDef):
        context.emit(class_lines(context, node, context.indent))
    else:
        context.emit(context.source.block(node, context.indent))


def _check_methods(context: Context, node: ast.ClassDef) -> None:
    """The decorators and the defaults of methods are evaluated with the class, and may name other parts of it."""
    methods = [child for child in node.body if isinstance(child, FunctionNode)]
    local = {identifier for child in node.body for identifier in lost_names(child)}
    for part in (part for method in methods for part in evaluated_parts(method)):
        if not any(isinstance(child, ast.Name) and child.id in local for child in ast.walk(part)):
            _check(context, part)
    for method in methods:
        check_function(context, method)


def _check(context: Context, node: ast.AST) -> None:
    """Raises LeftOutError for a part that cannot stay as it is."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    if isinstance(node, ast.expr):
        if not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            translated = context.translate(node)
            if ast.dump(translated) != ast.dump(node):
                raise left_out(node, "a statement of this kind is not translated", "write it as an assignment or a call")
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.AnnAssign) and child is node.annotation:
            context.future_annotations = context.future_annotations or is_unavailable(context, node.annotation)
        else:
            _check(context, child)
