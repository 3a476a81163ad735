"""Imports, functions and classes of an Airflow file."""

import ast
import sys
from collections.abc import Iterator

import msgspec

from tidegate.daemon.airflow_import.bodies import (
    all_arguments,
    check_function,
    evaluated_parts,
    function_lines,
    note_annotations,
    own_decorators,
    uses_airflow,
)
from tidegate.daemon.airflow_import.context import Context, DagName, Decorated
from tidegate.daemon.airflow_import.facts import FunctionNode, imported_paths
from tidegate.daemon.airflow_import.layout import copied
from tidegate.daemon.airflow_import.modules import Local
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
        if context.modules is not None and node.module and not node.level and (path := context.modules.find(node.module)):
            _read_star(context, node, path)
            return
        context.leave_out(omission(node, shown(node), "it does not say which names it imports", "import each name"), remark=True)
        return
    for alias, path in zip(node.names, imported_paths(node), strict=True):
        _read_name(context, node, alias, path)


def _read_star(context: Context, node: ast.ImportFrom, path: str) -> None:
    """All public names of a module of the tree, each with an import of its own where it is used."""
    there = context.module(path)
    if there is None or there.has_unknown_names:
        context.has_unknown_names = True
        context.leave_out(omission(node, shown(node), "it does not say which names it imports", "import each name"), remark=True)
        return
    names = {*there.imports, *there.local, *there.external, *there.bindings, *there.bound} - {"spark", "run"}
    for identifier in sorted(name for name in names if not name.startswith("_")):
        alias = ast.alias(name=identifier)
        imported = ast.copy_location(ast.ImportFrom(module=node.module, names=[alias], level=0), node)
        _read_name(context, imported, alias, f"{node.module}.{identifier}")


def _read_local(context: Context, local: str, found: Local) -> bool:
    """A name of another module of the tree; False for one that this module has of another package."""
    there = context.module(found.module) if found.name else None
    if there is not None and found.name not in there.bindings:
        if found.name in there.local:
            return _read_local(context, local, there.local[found.name])
        if found.name in there.standard:
            context.bound.add(local)
            context.imports[local] = there.imports[found.name]
            module, alias, whole = there.standard[found.name]
            context.standard[local] = (module, _renamed(alias, local), whole)
            return True
        origin = there.imports.get(found.name, "")
        if origin.split(".")[0] == "airflow":
            context.imports[local] = origin
            return True
        if found.name in there.external:
            return False
    context.bindings.pop(local, None)
    context.bound.discard(local)
    context.imports[local] = f"{found.dotted}.{found.name}"
    context.external[local] = found.text(local)
    context.local[local] = found
    if there is not None:
        _read_kind(context, local, found, there)
    return True


def _renamed(alias: ast.alias, local: str) -> ast.alias:
    return alias if (alias.asname or alias.name) == local else ast.alias(name=alias.name, asname=local)


def _read_kind(context: Context, local: str, found: Local, there: Context) -> None:
    """What the other module says of its function."""
    if found.name in there.runtime_only:
        context.runtime_only.add(local)
    if found.name in there.makers:
        context.makers.add(local)
    if found.name in there.wants_dag:
        context.wants_dag.add(local)
    binding = there.bindings.get(found.name)
    if isinstance(binding, Decorated) and binding.kind not in _PARTS.values():
        context.bindings[local] = msgspec.structs.replace(binding, imported_as=local)


def _read_name(context: Context, node: ast.Import | ast.ImportFrom, alias: ast.alias, path: str) -> None:
    local = alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0])
    package = path.split(".", maxsplit=1)[0]
    if package == "__future__":
        context.future_annotations = context.future_annotations or alias.name == "annotations"
        return
    found = context.modules.imported(node, alias) if context.modules is not None else None
    if found is not None and not context.optional and _read_local(context, local, found):
        return
    context.bindings.pop(local, None)
    context.local.pop(local, None)
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
    elif decorated.kind not in _PARTS.values() and (context.facts.uses[node.name] > 1 or _is_used_elsewhere(context, node)):
        context.emit(function_lines(context, node, context.indent, decorators=own_decorators(context, node)))
        check_function(context, node)
    elif context.facts.uses[node.name] == 0:
        why = "the function is never called, so that it makes no part of a DAG"
        context.leave_out(omission(node, f"@{decorated.kind} def {node.name}", why, "call it, or delete it"), remark=True)


def _is_used_elsewhere(context: Context, node: FunctionNode) -> bool:
    used = context.modules.used_elsewhere.get(context.path, ()) if context.modules is not None else ()
    return node.name in used or "*" in used


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
    """Whether a function makes tasks, groups or DAGs when it is called, itself or by another one that does."""
    if node.name in context.facts.task_functions:
        return False
    nested = [child for child in ast.walk(node) if isinstance(child, FunctionNode) and child is not node]
    if any(child.decorator_list[: len(child.decorator_list) - len(own_decorators(context, child))] for child in nested):
        return True
    made = [child for child in ast.walk(node) if isinstance(child, ast.Call)]
    if any(_is_operator(call) for call in made):
        return True
    calls = [call.func for call in made]
    inside = dict(_imports_inside(node))
    names = {context.airflow_name(called) or inside.get(ast.unparse(called), "") for called in calls}
    if any(is_task(called) or called in ("DAG", "TaskGroup") for called in names):
        return True
    return any(_is_maker(context, called) for called in calls)


def _is_operator(node: ast.Call) -> bool:
    """Whether a call is of an operator of another package, by its name and its arguments."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
    return is_task(called) and any(option.arg in ("task_id", None) for option in node.keywords)


def _imports_inside(node: FunctionNode) -> Iterator[tuple[str, str]]:
    """The classes of operators that a function imports itself."""
    for child in ast.walk(node):
        if isinstance(child, ast.ImportFrom) and (child.module or "").split(".")[0] == "airflow":
            yield from ((alias.asname or alias.name, alias.name) for alias in child.names)


def _is_maker(context: Context, called: ast.expr) -> bool:
    """Whether a call makes tasks: of a function that does, of one with a decorator, or of an operator of another package."""
    head = called
    while isinstance(head, ast.Attribute | ast.Call):
        head = head.value if isinstance(head, ast.Attribute) else head.func
    identifier = head.id if isinstance(head, ast.Name) else ""
    if isinstance(called, ast.Name) and called.id in context.makers:
        return True
    found = context.found_elsewhere(called)
    if found is not None and (found[1] in found[0].makers or isinstance(found[0].bindings.get(found[1]), Decorated)):
        return True
    return isinstance(context.bindings.get(identifier), Decorated)


def _write_maker(context: Context, node: FunctionNode) -> None:
    before = dict(context.bindings)
    context.makers.add(node.name)
    note_annotations(context, node)
    dag, is_added = _dag_of_maker(context, node)
    arguments = copied(node.args)
    if is_added:
        context.wants_dag.add(node.name)
        arguments.kwonlyargs.append(ast.arg(arg=_ADDED))
        arguments.kw_defaults.append(None)
    head = ast.unparse(
        ast.FunctionDef(
            name=node.name, args=arguments, body=[ast.Pass()], decorator_list=node.decorator_list, returns=None, lineno=1
        )
    )
    context.emit([context.indent + line for line in head.splitlines()[:-1]])
    outer, context.loops = context.loops, (*context.loops, *(argument.arg for argument in all_arguments(node)))
    heads, context.heads = context.heads, []
    rounds, context.rounds = context.rounds, 0
    for argument in all_arguments(node):
        context.bind(argument.arg)
    binding = DagName(dag) if dag else None
    known = context.dags.get(dag) if dag else None
    if binding is not None and known is None:
        context.bind(dag, binding)
    tasks, holders = dict(context.tasks), set(context.holders)
    lacked, context.lacks_result = context.lacks_result, False
    with context.within(known or binding), context.indented():
        context.write_body(node.body)
    if context.lacks_result:
        context.without_result.add(node.name)
    context.lacks_result = lacked
    context.loops, context.heads, context.rounds = outer, heads, rounds
    context.bindings, context.tasks, context.holders = before, tasks, holders
    context.bind(node.name)


_ADDED = "dag"
"""The parameter of a function that makes tasks for the DAG around its call, as Airflow does without one."""


def _dag_of_maker(context: Context, node: FunctionNode) -> tuple[str, bool]:
    """The variable of the DAG that a function adds tasks to, empty if it makes one; and whether it is to be a new parameter."""
    parameters = {argument.arg for argument in all_arguments(node)}
    given = [child.value for child in ast.walk(node) if isinstance(child, ast.keyword) and child.arg == "dag"]
    opened = [child.context_expr for child in ast.walk(node) if isinstance(child, ast.withitem)]
    named = [value.id for value in [*given, *opened] if isinstance(value, ast.Name) and value.id in parameters]
    if named or "dag" in parameters:
        return (named[0] if named else "dag"), False
    if any(isinstance(child, ast.Call) and context.airflow_name(child.func) == "DAG" for child in ast.walk(node)):
        return "", False
    return (context.facts.only_dag, False) if context.facts.only_dag else (_ADDED, True)
