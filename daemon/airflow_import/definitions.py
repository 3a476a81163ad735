"""Imports, functions and classes of an Airflow file."""

import ast
import sys

from tidegate.daemon.airflow_import.bodies import (
    all_arguments,
    check_function,
    evaluated_parts,
    function_lines,
    own_decorators,
    uses_airflow,
)
from tidegate.daemon.airflow_import.context import Context, DagName, Decorated
from tidegate.daemon.airflow_import.facts import FunctionNode, imported_paths
from tidegate.daemon.airflow_import.report import left_out, omission, shown
from tidegate.daemon.airflow_import.tasks import is_task
from tidegate.daemon.airflow_import.vocabulary import DECORATORS, UNKNOWN, operator_hint

_PARTS = {"dag": "dag", "task_group": "task_group"}
_ROLES = ("setup", "teardown")


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
    whole = isinstance(node, ast.Import) and not alias.asname
    context.imports[local] = local if whole else path
    if package in sys.stdlib_module_names:
        context.bound.add(local)
        context.standard[path if whole else local] = (
            path if isinstance(node, ast.Import) else path.rpartition(".")[0],
            alias,
            isinstance(node, ast.Import),
        )
    elif package != "airflow" and context.optional:
        # The file says what to do where the package is missing.
        context.emit([context.indent + _import_text(node, alias)])
        context.bind(local)
    elif package != "airflow":
        before = f"{context.external[local]}, " if whole and local in context.external else ""
        added = alias.name if before else _import_text(node, alias)
        context.external[local] = f"{before}{added}"


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
    elif decorated.kind not in _PARTS.values() and context.facts.uses[node.name] > 1:
        context.emit(function_lines(context, node, context.indent, decorators=own_decorators(context, node)))
        check_function(context, node)
    elif context.facts.uses[node.name] == 0:
        why = "the function is never called, so that it makes no part of a DAG"
        context.leave_out(omission(node, f"@{decorated.kind} def {node.name}", why, "call it, or delete it"), remark=True)


def is_pending(context: Context, node: FunctionNode) -> bool:
    """Whether a function waits for its call, which becomes its task."""
    binding = context.bindings.get(node.name)
    return isinstance(binding, Decorated) and binding.kind not in (*_PARTS.values(), UNKNOWN)


def _decorated(context: Context, node: FunctionNode) -> Decorated | None:
    """Raises LeftOutError for a decorator of Airflow without an equivalent."""
    own = own_decorators(context, node)
    airflow = node.decorator_list[: len(node.decorator_list) - len(own)]
    if not airflow:
        return None
    names = [context.airflow_name(_head(decorator)) or "" for decorator in airflow]
    kinds = [name for name in names if name not in _ROLES]
    if (
        node.decorator_list[len(airflow) :] != own
        or len(kinds) > 1
        or len(names) - len(kinds) > 1
        or (own and names[0] in _PARTS)
    ):
        raise left_out(node, "its decorators cannot be combined", "write one function for each", f"def {node.name}")
    name = kinds[0] if kinds else names[0]
    kind = _PARTS.get(name) or DECORATORS.get(name) or (UNKNOWN if name.startswith("task.") else None)
    if kind is None:
        raise left_out(node, *operator_hint(name), f"@{name} def {node.name}")
    for decorator in own:
        context.translate(decorator)
    role = next((given for given in names if given in _ROLES), name)
    return Decorated(node, kind, tuple(option for decorator in airflow for option in _options(decorator, kind)), role)


def _head(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _options(decorator: ast.expr, kind: str) -> list[ast.keyword]:
    if not isinstance(decorator, ast.Call):
        return []
    option = {"dag": "dag_id", "task_group": "group_id"}.get(kind, "task_id")
    return [*(ast.keyword(arg=option, value=arg) for arg in decorator.args[:1]), *decorator.keywords]


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
    context.emit(function_lines(context, node, context.indent, decorators=node.decorator_list))
    context.bind(node.name)
    check_function(context, node)


def makes_tasks(context: Context, node: FunctionNode) -> bool:
    """Whether a function makes tasks, groups or DAGs when it is called."""
    calls = (child.func for child in ast.walk(node) if isinstance(child, ast.Call))
    names = {context.airflow_name(called) or "" for called in calls}
    makes = any(is_task(called) or called in ("DAG", "TaskGroup") for called in names)
    return makes and node.name not in context.facts.task_functions


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
    only_dag = context.facts.only_dag
    with context.within(DagName(only_dag) if only_dag else None), context.indented():
        context.write_body(node.body)
    context.loops = outer
    context.bindings = before
    context.bind(node.name)
