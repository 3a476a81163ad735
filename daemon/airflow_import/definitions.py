"""Imports, functions and classes of an Airflow file."""

import ast
import sys

from tidegate.daemon.airflow_import.bodies import all_arguments, check_function, evaluated_parts, function_lines, uses_airflow
from tidegate.daemon.airflow_import.context import Context, Decorated, FunctionNode, imported_paths
from tidegate.daemon.airflow_import.report import left_out, omission, shown
from tidegate.daemon.airflow_import.tasks import is_task
from tidegate.daemon.airflow_import.vocabulary import DECORATORS, UNKNOWN, operator_hint

_PARTS = {"dag": "dag", "task_group": "task_group"}


def read_import(context: Context, node: ast.Import | ast.ImportFrom) -> None:
    """Imports of Python's library are written at the top, those of other packages into the functions that use them."""
    if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
        if (node.module or "").split(".")[0] == "airflow":
            context.reads_star = True
            return
        context.leave_out(omission(node, shown(node), "it does not say which names it imports", "import each name"), remark=True)
        return
    for alias, path in zip(node.names, imported_paths(node), strict=True):
        _read_name(context, node, alias, path)


def _read_name(context: Context, node: ast.Import | ast.ImportFrom, alias: ast.alias, path: str) -> None:
    local = alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0])
    package = path.split(".", maxsplit=1)[0]
    if package == "__future__":
        context.future_annotations = context.future_annotations or alias.name == "annotations"
        return
    context.bindings.pop(local, None)
    context.imports[local] = path if alias.asname or isinstance(node, ast.ImportFrom) else local
    if package in sys.stdlib_module_names:
        context.bound.add(local)
        context.standard[local] = (
            path if isinstance(node, ast.Import) else path.rpartition(".")[0],
            alias,
            isinstance(node, ast.Import),
        )
    elif package != "airflow" and context.optional:
        # The file says what to do where the package is missing.
        context.emit([context.indent + _import_text(node, alias)])
        context.bind(local)
    elif package != "airflow":
        context.external[local] = _import_text(node, alias)


def _import_text(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    if isinstance(node, ast.Import):
        return ast.unparse(ast.Import(names=[alias]))
    return ast.unparse(ast.ImportFrom(module=node.module, names=[alias], level=node.level))


def read_function(context: Context, node: FunctionNode) -> None:
    """A function with a decorator of Airflow is written where it is called, any other one at its place."""
    decorated = _decorated(context, node)
    if decorated is None:
        write_function(context, node)
        return
    context.bindings[node.name] = decorated
    if decorated.kind == UNKNOWN:
        context.leave_out(omission(node, f"@{decorated.role} def {node.name}", *operator_hint(decorated.role)))
    elif decorated.kind not in _PARTS.values() and context.uses[node.name] > 1:
        context.emit(function_lines(context, node, context.indent))
        check_function(context, node)
    elif context.uses[node.name] == 0:
        why = "the function is never called, so that it makes no part of a DAG"
        context.leave_out(omission(node, f"@{decorated.kind} def {node.name}", why, "call it, or delete it"), remark=True)


def is_pending(context: Context, node: FunctionNode) -> bool:
    """Whether a function waits for its call, which becomes its task."""
    binding = context.bindings.get(node.name)
    return isinstance(binding, Decorated) and binding.kind not in (*_PARTS.values(), UNKNOWN)


def _decorated(context: Context, node: FunctionNode) -> Decorated | None:
    """Raises LeftOutError for a decorator of Airflow without an equivalent."""
    for decorator in node.decorator_list:
        head = decorator.func if isinstance(decorator, ast.Call) else decorator
        airflow = context.airflow_name(head)
        if airflow is None:
            continue
        if len(node.decorator_list) > 1 and airflow not in ("setup", "teardown", "task"):
            raise left_out(node, "several decorators cannot be combined", "write one function for each", f"def {node.name}")
        kind = _PARTS.get(airflow) or DECORATORS.get(airflow) or (UNKNOWN if airflow.startswith("task.") else None)
        if kind is None:
            raise left_out(node, *operator_hint(airflow), f"@{airflow} def {node.name}")
        given = decorator if isinstance(decorator, ast.Call) else ast.Call(func=head, args=[], keywords=[])
        positional = [
            ast.keyword(arg=f"{'dag' if kind == 'dag' else 'group' if kind == 'task_group' else 'task'}_id", value=arg)
            for arg in given.args[:1]
        ]
        return Decorated(node, kind, (*positional, *given.keywords), airflow)
    return None


def write_function(context: Context, node: FunctionNode) -> None:
    """Write a function as it is, with the imports that it needs. Raises LeftOutError if its head cannot be run.

    One that makes tasks or DAGs is translated as the code around it.
    """
    for value in evaluated_parts(node):
        context.translate(value)
    if makes_tasks(context, node):
        _write_maker(context, node)
        return
    if uses_airflow(context, node):
        context.runtime_only.add(node.name)
    context.emit(function_lines(context, node, context.indent, decorators=True))
    context.bind(node.name)
    check_function(context, node)


def makes_tasks(context: Context, node: FunctionNode) -> bool:
    """Whether a function makes tasks, groups or DAGs when it is called."""
    calls = (child.func for child in ast.walk(node) if isinstance(child, ast.Call))
    names = {context.airflow_name(called) or "" for called in calls}
    return node.name not in context.task_functions and any(is_task(called) or called in ("DAG", "TaskGroup") for called in names)


def _write_maker(context: Context, node: FunctionNode) -> None:
    before = dict(context.bindings)
    head = ast.unparse(
        ast.FunctionDef(
            name=node.name, args=node.args, body=[ast.Pass()], decorator_list=node.decorator_list, returns=None, lineno=1
        )
    )
    context.emit([context.indent + line for line in head.splitlines()[:-1]])
    outer, context.loops = context.loops, (*context.loops, *(argument.arg for argument in all_arguments(node)))
    for argument in all_arguments(node):
        context.bind(argument.arg)
    with context.within(context.only_dag), context.indented():
        context.write_body(node.body)
    context.loops = outer
    context.bindings = before
    context.bind(node.name)
