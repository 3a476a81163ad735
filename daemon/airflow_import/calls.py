"""Calls that make tasks: of operators, and of functions with a decorator, mapped or not."""

import ast
from collections.abc import Iterator, Sequence

import msgspec

from tidegate.daemon.airflow_import import layout, vocabulary
from tidegate.daemon.airflow_import.arguments import take
from tidegate.daemon.airflow_import.context import Context, DagName, Decorated, TaskName
from tidegate.daemon.airflow_import.functions import (
    PythonTask,
    docker_function,
    list_task,
    operator_arguments,
    register,
    write_task,
)
from tidegate.daemon.airflow_import.groups import write_dag_function, write_group_function
from tidegate.daemon.airflow_import.layout import attribute, call, constant, item, items, keyword, name
from tidegate.daemon.airflow_import.report import LeftOutError, left_out, shown
from tidegate.daemon.airflow_import.roles import write_role
from tidegate.daemon.airflow_import.tasks import is_task, placeholder, task_call
from tidegate.daemon.airflow_import.unsupported import leave_out_arguments, leave_out_positional
from tidegate.daemon.airflow_import.vocabulary import UNKNOWN

_METHODS = ("expand", "expand_kwargs", "partial", "override")


class Invocation(msgspec.Struct, frozen=True):
    """A call with what is before it: `f.override(…).partial(…).expand(…)`. `calls` are by method; `call` is the plain call."""

    base: ast.expr
    calls: dict[str, ast.Call]

    @property
    def mapped(self) -> bool:
        return "expand" in self.calls or "expand_kwargs" in self.calls


def invocation(node: ast.Call) -> Invocation:
    calls: dict[str, ast.Call] = {}
    current: ast.expr = node
    while isinstance(current, ast.Call):
        method = current.func.attr if isinstance(current.func, ast.Attribute) and current.func.attr in _METHODS else "call"
        calls.setdefault(method, current)
        current = current.func.value if method != "call" and isinstance(current.func, ast.Attribute) else current.func
    return Invocation(current, calls)


def decorated_call(context: Context, node: ast.Call, found: Invocation, decorated: Decorated, variable: str) -> ast.expr:
    """A call of a function with a decorator: a DAG, a group, or a task."""
    if decorated.kind == "dag":
        return write_dag_function(context, node, decorated, variable)
    if decorated.kind == "task_group":
        if found.mapped:
            raise left_out(node, "a group cannot be mapped", "map each of its tasks")
        return write_group_function(context, found.calls["call"], decorated)
    return _decorated_task(context, node, found, decorated, variable)


def _decorated_task(context: Context, node: ast.Call, found: Invocation, decorated: Decorated, variable: str) -> ast.expr:
    if decorated.kind == UNKNOWN:
        return _unknown_task(context, node, decorated, variable)
    override = found.calls["override"].keywords if "override" in found.calls else []
    if "override" in found.calls:
        leave_out_positional(context, found.calls["override"].args, f"{decorated.node.name}.override")
    overridden = {option.arg for option in override}
    options = [*(option for option in decorated.options if option.arg not in overridden), *override]
    task_id, options = take(options, "task_id")
    partial = found.calls["partial"].keywords if "partial" in found.calls else []
    if "partial" in found.calls:
        leave_out_positional(context, found.calls["partial"].args, f"{decorated.node.name}.partial")
    called = found.calls.get("call")
    mapped = _mapped_arguments(context, found, decorated.node.name) if found.mapped else ([], [], None)
    fails, options = take(options, "on_failure_fail_dagrun")
    written_id = _given_id(context, task_id) if task_id is not None else _own_id(context, node, decorated.node.name)
    asked = PythonTask(
        node=node,
        kind=decorated.kind,
        callee=_named(decorated.imported_as or decorated.node.name),
        function=decorated.node,
        args=[*(called.args if called else []), *mapped[0]],
        keywords=[*(called.keywords if called else []), *partial, *mapped[1]],
        options=options,
        task_id=written_id,
        variable=variable,
        item_of=mapped[2],
        may_inline=task_id is None and not decorated.imported_as,
    )
    try:
        task = write_task(context, asked)
    except LeftOutError as left:
        return _failing_task(context, node, decorated, left, [keyword("task_id", written_id), *options], variable)
    write_role(context, node, task, decorated.role, fails)
    return task


def _named(dotted: str) -> ast.expr:
    return ast.parse(dotted, mode="eval").body


def _unknown_task(context: Context, node: ast.Call, decorated: Decorated, variable: str) -> ast.expr:
    """A task that fails, for a decorator without an equivalent."""
    left = left_out(node, *vocabulary.operator_hint(decorated.role))
    task_id, options = take(decorated.options, "task_id")
    written_id = task_id if task_id is not None else _own_id(context, node, decorated.node.name)
    return _failing_task(context, node, decorated, left, [keyword("task_id", written_id), *options], variable)


def _failing_task(
    context: Context, node: ast.Call, decorated: Decorated, left: LeftOutError, options: list[ast.keyword], variable: str
) -> ast.expr:
    """A task that fails, in place of one that is left out. It has a variable: the call may be an argument of another task."""
    made = placeholder(context, node, f"@{decorated.role}", left, options)
    chosen = variable or context.fresh(f"{decorated.node.name}_task")
    context.emit(layout.statement(f"{chosen} = ", made, context.indent))
    register(context, chosen, made.args[0])
    return name(chosen)


def _own_id(context: Context, node: ast.expr, function: str) -> ast.expr:
    """Airflow appends `__1` to the id of the second task of one function; in a loop the file counts them."""
    if context.rounds or function in context.counted:
        return _counted_id(context, node, function)
    count = context.count_call(function)
    return constant(function if not count else f"{function}__{count}")


def _counted_id(context: Context, node: ast.expr, function: str) -> ast.expr:
    if "?" in context.group:
        raise left_out(node, "the tasks of a loop need ids of their own", f'write {function}.override(task_id=f"…")')
    context.counted.add(function)
    whole = f"{context.group}.{function}" if context.group else function
    count, chosen = context.fresh(f"{function}_count"), context.fresh(f"{function}_id")
    tasks = f"{context.dag_of(node).name}.tasks"
    context.emit([f'{context.indent}{count} = sum(name == "{whole}" or name.startswith("{whole}__") for name in {tasks})'])
    context.emit([f'{context.indent}{chosen} = f"{function}__{{{count}}}" if {count} else "{function}"'])
    context.bound.add(chosen)
    # The functions of tasks keep the id as it is now.
    context.loops = (*context.loops, chosen)
    return name(chosen)


def _given_id(context: Context, task_id: ast.expr) -> ast.expr:
    """The id of a decorator; a further task of it gets a number."""
    if not isinstance(task_id, ast.Constant) or context.rounds:
        return task_id
    count = context.count_call(str(task_id.value))
    return constant(f"{task_id.value!s}__{count}") if count else task_id


def _mapped_arguments(context: Context, found: Invocation, function: str) -> tuple[list[ast.expr], list[ast.keyword], str]:
    """The arguments that get an element of a list, and the task that returns the list."""
    item = attribute(name("run"), "item")
    if "expand_kwargs" in found.calls:
        node = found.calls["expand_kwargs"]
        leave_out_arguments(context, node, f"{function}.expand_kwargs", after=1)
        over = list_task(context, (node.args or [constant(None)])[0], f"{function}_items")
        return [], [ast.keyword(arg=None, value=item)], over
    node = found.calls["expand"]
    if len(node.keywords) != 1 or node.args or node.keywords[0].arg is None:
        raise left_out(node, "a task is mapped over one list", "return the list of all combinations from a task, and map over it")
    over = list_task(context, node.keywords[0].value, f"{function}_{node.keywords[0].arg}")
    return [], [keyword(node.keywords[0].arg, item)], over


def operator_call(context: Context, node: ast.Call, found: Invocation, class_name: str, variable: str) -> ast.expr | None:
    """The task of an operator; None if the call is of something else."""
    if not is_task(class_name):
        return None
    given = found.calls.get("partial", found.calls.get("call", node))
    options = [*(keyword("task_id", arg) for arg in given.args[:1]), *given.keywords]
    leave_out_positional(context, given.args[1:], class_name)
    options = [ast.keyword(arg=option.arg, value=_made(context, option.value)) for option in options]
    upstream = _read_tasks(context, options)
    try:
        made = _mapped_operator(context, node, found, class_name, options, variable)
    except LeftOutError as left:
        if context.dag is None or not any(option.arg == "task_id" for option in options):
            raise
        made = placeholder(context, node, class_name, left, options)
    return made if isinstance(made, ast.Name) else after_results(context, made, upstream, variable)


def _made(context: Context, node: ast.expr) -> ast.expr:
    """The variable of a task that a call among the arguments makes."""
    base = invocation(node).base if isinstance(node, ast.Call) else node
    binding = context.bindings.get(base.id) if isinstance(base, ast.Name) else None
    made = context.translate(node) if isinstance(node, ast.Call) and isinstance(binding, Decorated) else node
    return ast.copy_location(made, node)


def _read_tasks(context: Context, options: Sequence[ast.keyword]) -> list[str]:
    """The tasks whose results are arguments of an operator, and which it follows therefore."""
    found = [name for option in options if option.arg not in ("dag", "task_group") for name in _results_in(context, option.value)]
    return list(dict.fromkeys(found))


def _results_in(context: Context, node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Name(id=identifier) if identifier in context.bindings and identifier not in context.stale:
            binding = context.bindings[identifier]
            yield from [binding.name] if isinstance(binding, TaskName) else []
        case ast.Attribute(attr="output", value=value) | ast.Subscript(value=value):
            yield from _results_in(context, value)
        case ast.List() | ast.Tuple():
            yield from (found for element in node.elts for found in _results_in(context, element))
        case ast.Dict():
            yield from (found for value in node.values for found in _results_in(context, value))
        case _:
            return


def after_results(context: Context, made: ast.expr, upstream: Sequence[str], variable: str) -> ast.expr:
    """The task, with a variable and a link if it follows others whose results it gets."""
    if not upstream or not isinstance(made, ast.Call) or not made.args:
        return made
    chosen = variable or context.fresh("task")
    context.emit(layout.statement(f"{chosen} = ", made, context.indent))
    register(context, chosen, made.args[0])
    first = name(upstream[0]) if len(upstream) == 1 else items(*(name(task) for task in upstream))
    context.emit(layout.statement("", ast.BinOp(left=first, op=ast.RShift(), right=name(chosen)), context.indent))
    return name(chosen)


def _mapped_operator(
    context: Context, node: ast.Call, found: Invocation, class_name: str, options: list[ast.keyword], variable: str
) -> ast.expr:
    over = None
    if found.mapped:
        options, over = _with_item(context, found, class_name, options)
    if class_name in vocabulary.PYTHON:
        return _python_operator(context, node, class_name, options, variable, over)
    dag_option, _ = take(options, "dag")
    environment, others = take(options, "environment")
    if class_name == "DockerOperator" and over is None and environment is not None and list(_results_in(context, environment)):
        with context.within(_named_dag(context, dag_option)):
            return docker_function(context, class_name, others, environment, variable)
    with context.within(_named_dag(context, dag_option)):
        made = task_call(context, node, class_name, options)
    return made if over is None else call(attribute(made, "expand"), [], [keyword("over", name(over))])


def _with_item(context: Context, found: Invocation, class_name: str, options: list[ast.keyword]) -> tuple[list[ast.keyword], str]:
    """The options with `{{ item }}`, or `run.item` for a function, in place of the mapped one."""
    node = found.calls.get("expand")
    if node is None or node.args or len(node.keywords) != 1 or node.keywords[0].arg is None or class_name in vocabulary.EMPTY:
        raise left_out(
            next(iter(found.calls.values())),
            "a task is mapped over one list",
            "return the list of all combinations from a task, and map over it",
        )
    option = node.keywords[0].arg
    over = list_task(context, node.keywords[0].value, context.fresh(f"{option}_items"))
    if class_name not in vocabulary.PYTHON:
        return [*options, keyword(option, constant("{{ item }}"))], over
    item = attribute(name("run"), "item")
    return [*options, keyword(option, item)], over


def _python_operator(
    context: Context, node: ast.Call, class_name: str, options: list[ast.keyword], variable: str, over: str | None
) -> ast.expr:
    callee, rest = take(options, "python_callable")
    task_id, rest = take(rest, "task_id")
    dag_option, rest = take(rest, "dag")
    args, keywords, rest = operator_arguments(rest)
    function = context.function(callee) if callee is not None else None
    if callee is None or task_id is None:
        raise left_out(node, "it lacks python_callable or task_id", "write both")
    with context.within(_named_dag(context, dag_option)):
        return write_task(
            context,
            PythonTask(
                node=node,
                kind=vocabulary.PYTHON[class_name],
                callee=_callee(context, callee),
                function=function,
                args=args,
                keywords=keywords,
                options=rest,
                task_id=task_id,
                variable=variable,
                item_of=over,
            ),
        )


def _callee(context: Context, node: ast.expr) -> ast.expr:
    """A function of the file, or one of another package, which the task imports."""
    return node if isinstance(node, ast.Name) and node.id in context.external else context.translate(node)


def foreign_task(context: Context, node: ast.Call, found: Invocation, variable: str) -> ast.expr:
    """A task that fails, for an operator which is not one of Airflow's own."""
    options = [option for made in found.calls.values() for option in made.keywords]
    options += [keyword("task_id", item(unpacked, "task_id")) for unpacked in _unpacked(options)]
    left = left_out(node, "its class needs Airflow", "do the work in a function task, a command or a Spark application")
    upstream = _read_tasks(context, options)
    return after_results(context, placeholder(context, node, shown(found.base), left, options), upstream, variable)


def _unpacked(options: Sequence[ast.keyword]) -> list[ast.Name]:
    """The dict with the id of a task, where it has to be in the one that is unpacked."""
    if any(option.arg == "task_id" for option in options):
        return []
    return [option.value for option in options if option.arg is None and isinstance(option.value, ast.Name)][:1]


def _named_dag(context: Context, node: ast.expr | None) -> DagName | None:
    binding = context.bindings.get(node.id) if isinstance(node, ast.Name) else None
    return binding if isinstance(binding, DagName) else None
