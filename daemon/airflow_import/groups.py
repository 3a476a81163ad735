"""Functions that Airflow makes DAGs and groups of: their bodies are written where they are called."""

import ast
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.daemon.airflow_import import layout
from tidegate.daemon.airflow_import.arguments import take
from tidegate.daemon.airflow_import.context import Context, Decorated, GroupName, TaskName
from tidegate.daemon.airflow_import.dags import dag_call
from tidegate.daemon.airflow_import.facts import FunctionNode, stored_names
from tidegate.daemon.airflow_import.layout import attribute, call, constant, keyword, name
from tidegate.daemon.airflow_import.report import LeftOutError, omission
from tidegate.daemon.airflow_import.run_values import free_names
from tidegate.daemon.airflow_import.unsupported import leave_out_arguments, leave_out_option


def write_dag_function(context: Context, node: ast.Call, decorated: Decorated, variable: str) -> ast.expr:
    """`with Dag(…) as dag:` with the body of the function; the result is its variable."""
    chosen = variable or ("dag" if "dag" not in context.taken else context.fresh("dag"))
    head = ast.Call(func=node.func, args=[], keywords=[*decorated.options, *_description(decorated)])
    ast.copy_location(head, decorated.node)
    made, dag = dag_call(context, head, chosen, decorated.node.name)
    context.emit(layout.statement("with ", made, context.indent, f" as {chosen}:"))
    context.dags[chosen] = dag
    if variable:
        context.bind(variable, dag)
    with context.within(dag), context.indented():
        _write_inlined(context, node, decorated)
    return name(chosen)


def _description(decorated: Decorated) -> list[ast.keyword]:
    """The docstring of the function, which Airflow shows beside the DAG."""
    text = ast.get_docstring(decorated.node)
    if text is None or any(option.arg == "description" for option in decorated.options):
        return []
    return [keyword("description", constant(text))]


def write_group_function(context: Context, node: ast.Call, decorated: Decorated) -> ast.expr:
    """`with dag.group(…) as group:` with the body of the function; the result is its variable."""
    group_id, rest = take(decorated.options, "group_id")
    count = context.count_call(decorated.node.name)
    wanted = group_id if group_id is not None else constant(decorated.node.name)
    if count and isinstance(wanted, ast.Constant):
        wanted = constant(f"{wanted.value!s}__{count}")
    variable = context.fresh(f"{decorated.node.name}_group")
    group_options(context, rest)
    write_group(context, wanted, variable)
    with inside_group(context, wanted), context.indented():
        _write_inlined(context, node, decorated)
    _remember_result(context, decorated, variable)
    return name(variable)


def write_group(context: Context, group_id: ast.expr, variable: str | None) -> None:
    """The head of a group's block."""
    made = call(attribute(name(context.dag_of(group_id).name), "group"), [context.translate(group_id)])
    context.emit(layout.statement("with ", made, context.indent, f" as {variable}:" if variable else ":"))
    if variable:
        context.bind(variable, GroupName(variable))


def group_options(context: Context, options: list[ast.keyword]) -> None:
    """Groups have no options: an option that would change something is left out."""
    for option in options:
        if option.arg in ("dag", "parent_group") or (option.arg == "prefix_group_id" and _is_true(option.value)):
            continue
        leave_out_option(context, option, "TaskGroup")


@contextmanager
def inside_group(context: Context, group_id: ast.expr) -> Iterator[None]:
    """Ids of tasks inside begin with that of the group."""
    outer = context.group
    known = group_id.value if isinstance(group_id, ast.Constant) else "?"
    context.group = f"{outer}.{known!s}" if outer else str(known)
    try:
        yield
    finally:
        context.group = outer


def _write_inlined(context: Context, node: ast.Call, decorated: Decorated) -> None:
    """The parameters, then the body without its docstring and its `return`."""
    function = decorated.node
    context.inlined.add(function.name)
    _report_shared(context, function)
    _bind_parameters(context, node, decorated)
    documented = ast.get_docstring(function) is not None
    if documented and decorated.kind != "dag":
        context.emit([f"{context.indent}# {line}".rstrip() for line in (ast.get_docstring(function) or "").splitlines()])
    body = function.body[1:] if documented else function.body
    context.write_body([_without_return(statement) for statement in body if not _returns_name(statement)])


def _report_shared(context: Context, function: FunctionNode) -> None:
    """Functions inside read the variables of this one, which become those of the file: others must not set them."""
    own = Counter(name for name, _ in stored_names(function, context.facts.task_functions))
    is_again = context.facts.uses[function.name] > 1
    shared = {
        name for name, count in own.items() if context.facts.stores[name] > count or (is_again and name in _values(function))
    }
    for inner in ast.walk(function):
        if isinstance(inner, FunctionNode) and inner is not function:
            for read in sorted(shared & free_names(inner)):
                why = f"it becomes a variable of the file, where {function.name} is not the only one that sets it"
                what = f"{read} of {function.name} in {inner.name}"
                context.leave_out(omission(inner, what, why, "give it a name that nothing else has"))


def _values(function: FunctionNode) -> set[str]:
    """The variables of a function that can have other values each time it is called."""
    nested = {inner.name for inner in ast.walk(function) if isinstance(inner, FunctionNode)}
    return {name for name, _ in stored_names(function, nested)} - nested


def _bind_parameters(context: Context, node: ast.Call, decorated: Decorated) -> None:
    """A parameter becomes a variable, or another name of the task that is passed."""
    arguments = decorated.node.args
    names = [parameter.arg for parameter in [*arguments.args, *arguments.kwonlyargs]]
    defaults = dict(zip(reversed([parameter.arg for parameter in arguments.args]), reversed(arguments.defaults), strict=False))
    given = {
        **defaults,
        **dict(zip(names, node.args, strict=False)),
        **{str(option.arg): option.value for option in node.keywords},
    }
    leave_out_arguments(context, node, decorated.node.name, after=len(names), known=names)
    for parameter in names:
        if parameter in given:
            _bind_parameter(context, parameter, given[parameter])
        else:
            context.leave_out(
                omission(
                    decorated.node,
                    f"parameter {parameter} of {decorated.node.name}",
                    "it has no value where the function is called",
                    "write its value",
                )
            )
            context.lose([parameter], decorated.node)
    if decorated.kind == "dag" and names:
        what = f"parameters {', '.join(names)} of {decorated.node.name}"
        context.leave_out(
            omission(
                decorated.node,
                what,
                "a DAG has no parameters in its function; they keep their values",
                "write params= of the DAG, and read run.params",
            )
        )


def _bind_parameter(context: Context, parameter: str, value: ast.expr) -> None:
    try:
        translated = context.translate(value)
    except LeftOutError as left:
        context.leave_out(omission(value, f"parameter {parameter}", left.omission.why, left.omission.instead))
        context.lose([parameter], value)
        return
    if isinstance(translated, ast.Name) and isinstance(task := context.tasks.get(translated.id), TaskName):
        context.bind(parameter, task)
    elif not (isinstance(translated, ast.Name) and translated.id == parameter):
        context.emit(layout.statement(f"{parameter} = ", translated, context.indent))
        context.bind(parameter)


def _returns_name(node: ast.stmt) -> bool:
    """A `return` of tasks that have names says nothing once the body is written at its place."""
    names = (ast.Name, ast.Tuple, ast.List, ast.Constant)
    return isinstance(node, ast.Return) and (node.value is None or isinstance(node.value, names))


def _without_return(node: ast.stmt) -> ast.stmt:
    if isinstance(node, ast.Return) and node.value is not None:
        return ast.copy_location(ast.Expr(value=node.value), node)
    return node


def _remember_result(context: Context, decorated: Decorated, variable: str) -> None:
    """Tasks that get the group as an argument read the result of the task that its function returns."""
    last = decorated.node.body[-1]
    binding = context.bindings.get(last.value.id) if isinstance(last, ast.Return) and isinstance(last.value, ast.Name) else None
    if isinstance(binding, TaskName):
        context.group_results[variable] = binding


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
