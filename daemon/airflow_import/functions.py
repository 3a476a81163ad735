"""Tasks that call Python functions: each becomes a function of `spark` and `run`, which calls the one of the Airflow file."""

import ast
from collections.abc import Mapping, Sequence

import msgspec

from tidegate.daemon.airflow_import import layout, templates
from tidegate.daemon.airflow_import.arguments import Convert, own_options, take, task_options
from tidegate.daemon.airflow_import.bodies import body_lines, check_function, function_lines, imports_of, own_decorators
from tidegate.daemon.airflow_import.containers import docker_words
from tidegate.daemon.airflow_import.context import Context, TaskName
from tidegate.daemon.airflow_import.facts import FunctionNode
from tidegate.daemon.airflow_import.layout import attribute, call, constant, items, keyword, name
from tidegate.daemon.airflow_import.report import left_out, omission
from tidegate.daemon.airflow_import.run_values import RUN, captured, context_arguments, in_function, rendered
from tidegate.daemon.airflow_import.texts import text_values
from tidegate.schemas.text import is_template


class PythonTask(msgspec.Struct, frozen=True):
    """A call of a function as a task. `item_of` is the task over whose list it is mapped."""

    node: ast.expr
    kind: str
    callee: ast.expr
    function: FunctionNode | None
    args: Sequence[ast.expr] = ()
    keywords: Sequence[ast.keyword] = ()
    options: Sequence[ast.keyword] = ()
    task_id: ast.expr | None = None
    variable: str = ""
    item_of: str | None = None
    may_inline: bool = False


class Arguments(msgspec.Struct, frozen=True):
    """The arguments of a call inside of a task, and the tasks whose results they read."""

    args: list[ast.expr]
    keywords: list[ast.keyword]
    upstream: list[str]


_OF_FUNCTIONS: Mapping[str, Mapping[str, tuple[str, Convert]]] = {
    "task": {"env_vars": ("env", text_values)},
    "bash": {"env": ("env", text_values)},
}
"""The variables that Airflow adds to the environment of a function, or of the command that it returns."""


_MAKERS = {"empty", "command", "sql", "submit"}


def write_task(context: Context, task: PythonTask) -> ast.expr:
    """Write the function, and return its name, which is the task."""
    dag = context.dag_of(task.node)
    arguments = _arguments(context, task)
    if task.item_of in arguments.upstream:
        raise left_out(
            task.node, "an instance of a mapped task has its element, and not the list", "put what it needs into each element"
        )
    own, common = own_options(context, task.options, "the task", _OF_FUNCTIONS["bash" if task.kind == "bash" else "task"])
    options = [*own, *task_options(context, common, "the task")]
    inline = task.may_inline and _can_inline(context, task, arguments)
    variable = _variable(context, task, inline=inline)
    decorator = attribute(name(dag.name), "task")
    written_id = constant(variable) if task.task_id is None else context.translate(task.task_id)
    named = isinstance(written_id, ast.Constant) and written_id.value == variable
    given = [*([] if named else [keyword("task_id", written_id)]), *options]
    _write_function_once(context, task, inline=inline)
    context.emit(layout.statement("@", call(decorator, [], given) if given else decorator, context.indent))
    body = _inlined(context, task, arguments) if inline else _wrapped(context, task, arguments)
    read = list(_passed(task.function, arguments).values()) if inline and task.function else [task.callee, *_values(arguments)]
    context.emit([f"{context.indent}def {variable}(spark, run{captured(context, read)}):", *body])
    register(context, variable, written_id)
    _link(context, variable, arguments.upstream, task.item_of)
    return name(variable)


def _write_function_once(context: Context, task: PythonTask, *, inline: bool) -> None:
    """A function that had a decorator of Airflow is written before its first task, with the comments before it."""
    function = task.function
    if function is None or function.name not in context.pending or context.facts.functions.get(function.name) is not function:
        return
    remarks = context.pending.pop(function.name)
    context.emit([context.indent + remark for remark in remarks])
    if not inline:
        context.emit([*function_lines(context, function, context.indent, decorators=own_decorators(context, function)), ""])
    check_function(context, function)


def holds_task(context: Context, value: ast.expr) -> bool:
    """Whether a translated expression has a task in it, by its name or by the call that makes it."""
    names = {child.id for child in ast.walk(value) if isinstance(child, ast.Name)}
    made = {child.func.attr for child in ast.walk(value) if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute)}
    dags = {dag.name for dag in context.dags.values()}
    return bool(names & (context.tasks.keys() | context.holders)) or bool(names & dags and made & _MAKERS)


def register(context: Context, variable: str, task_id: ast.expr) -> None:
    """The variable is a task from now on."""
    context.tasks[variable] = TaskName(variable, context.prefixed(task_id))
    context.bind(variable, context.tasks[variable])


def list_task(context: Context, node: ast.expr, wanted: str) -> str:
    """The task that returns a list: the one that an expression is, or a new one for a literal list."""
    translated = context.translate(node)
    if isinstance(translated, ast.Name) and translated.id in context.tasks:
        return translated.id
    if not isinstance(node, ast.List | ast.Tuple | ast.Name | ast.Call | ast.ListComp):
        raise left_out(node, "a task is mapped over the list that another task returns", "write a task that returns the list")
    variable = context.fresh(wanted)
    decorator = attribute(name(context.dag_of(node).name), "task")
    context.emit(layout.statement("@", decorator, context.indent))
    arguments = _results(context, [translated], [])
    returned = layout.statement("return ", arguments.args[0], f"{context.indent}    ")
    context.emit([f"{context.indent}def {variable}(spark, run{captured(context, arguments.args)}):", *returned])
    register(context, variable, constant(variable))
    _link(context, variable, arguments.upstream, None)
    return variable


def operator_arguments(options: Sequence[ast.keyword]) -> tuple[list[ast.expr], list[ast.keyword], list[ast.keyword]]:
    """The positional and the named arguments that `op_args` and `op_kwargs` hold, and the other options."""
    positional, rest = take(options, "op_args")
    named, rest = take(rest, "op_kwargs")
    args = list(positional.elts) if isinstance(positional, ast.List | ast.Tuple) else []
    if positional is not None and not isinstance(positional, ast.List | ast.Tuple):
        args = [ast.Starred(value=positional, ctx=ast.Load())]
    if isinstance(named, ast.Dict) and all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in named.keys):
        pairs = zip(named.keys, named.values, strict=True)
        return args, [keyword(str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant)], rest
    return args, [] if named is None else [ast.keyword(arg=None, value=named)], rest


def _arguments(context: Context, task: PythonTask) -> Arguments:
    args = [_argument(context, arg) for arg in task.args]
    keywords = [ast.keyword(arg=option.arg, value=_argument(context, option.value)) for option in task.keywords]
    keywords += context_arguments(context, task.callee, task.function, len(args), {option.arg for option in keywords})
    return _results(context, args, keywords)


def _argument(context: Context, node: ast.expr) -> ast.expr:
    """Airflow renders strings in arguments as templates. A template that is one name becomes an attribute of the run."""
    with context.reading("function"):
        translated = context.translate(node)
    for text in ast.walk(translated):
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and is_template(text.value):
            only = rendered(templates.only_name(templates.translated(text.value)) or "")
            if only is not None and text is translated:
                return only
            why, instead = "arguments of functions are not rendered", "read the value from run in the function"
            context.leave_out(omission(node, f"template {text.value} in an argument", why, instead))
    return translated


def _results(context: Context, args: list[ast.expr], keywords: list[ast.keyword]) -> Arguments:
    found = _Results(context)
    read = [_visited(found, arg) for arg in args]
    named = [ast.keyword(arg=option.arg, value=_visited(found, option.value)) for option in keywords]
    return Arguments(read, named, list(dict.fromkeys(found.upstream)))


def _visited(results: "_Results", node: ast.expr) -> ast.expr:
    visited: ast.expr = results.visit(node)
    return visited


class _Results(ast.NodeTransformer):
    """Reads the results of tasks from the run."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.upstream: list[str] = []

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        # `run.ds` was written for a template: no attribute of a task is left at this place.
        if isinstance(node.value, ast.Name) and node.value.id == "run":
            return node
        visited = self.generic_visit(node)
        return visited if isinstance(visited, ast.expr) else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.context.holders or node.id in self.context.stale:
            raise left_out(
                node, "the file does not say which tasks it holds", "link the tasks, and read run.results in the function"
            )
        task = self.context.tasks.get(node.id) or self.context.group_results.get(node.id)
        if task is None:
            return node
        self.upstream.append(node.id)
        return ast.Subscript(value=attribute(RUN, "results"), slice=task.task_id, ctx=ast.Load())


def _variable(context: Context, task: PythonTask, *, inline: bool) -> str:
    function = task.callee.id if isinstance(task.callee, ast.Name) else ""
    if inline:
        return function
    if task.variable and task.variable not in context.facts.functions and task.variable not in context.tasks:
        return task.variable
    wanted = str(task.task_id.value) if isinstance(task.task_id, ast.Constant) else f"{function or 'call'}_task"
    identifier = "".join(character if character.isalnum() else "_" for character in wanted)
    if not identifier.isidentifier() or identifier in context.facts.functions:
        identifier = f"{function or 'call'}_task"
    return context.fresh(identifier)


def _can_inline(context: Context, task: PythonTask, arguments: Arguments) -> bool:
    """Whether the function itself can become the task: it is used once, and its parameters get their values at its start."""
    function = task.function
    if function is None or isinstance(function, ast.AsyncFunctionDef) or context.loops or context.facts.uses[function.name] != 1:
        return False
    parameters = [parameter.arg for parameter in [*function.args.args, *function.args.kwonlyargs]]
    read = {node.id for value in _values(arguments) for node in ast.walk(value) if isinstance(node, ast.Name)}
    unusual = (
        own_decorators(context, function)
        or function.args.vararg
        or function.args.kwarg
        or function.args.posonlyargs
        or task.item_of
    )
    clashing = {"run", *parameters} & read - {"run", "spark"} or "run" in parameters
    starred = any(isinstance(arg, ast.Starred) for arg in arguments.args) or any(
        option.arg is None for option in arguments.keywords
    )
    known = all(option.arg in parameters for option in arguments.keywords) and len(arguments.args) <= len(function.args.args)
    return (
        known
        and not (unusual or clashing or starred)
        and task.kind == "task"
        and set(_passed(function, arguments)) >= set(parameters)
    )


def _values(arguments: Arguments) -> list[ast.expr]:
    return [*arguments.args, *(option.value for option in arguments.keywords)]


def _passed(function: FunctionNode, arguments: Arguments) -> dict[str, ast.expr]:
    """The value of each parameter: the argument, or the default."""
    names = [parameter.arg for parameter in function.args.args]
    defaults = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
    keyword_only = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    defaults |= {parameter.arg: default for parameter, default in keyword_only if default is not None}
    given = dict(zip(names, arguments.args, strict=False))
    return {**defaults, **given, **{str(option.arg): option.value for option in arguments.keywords}}


def _inlined(context: Context, task: PythonTask, arguments: Arguments) -> list[str]:
    """The body of the function as written, after its parameters got their values."""
    function, indent = task.function, f"{context.indent}    "
    if function is None:
        return []
    passed = _passed(function, arguments)
    order = [parameter.arg for parameter in [*function.args.args, *function.args.kwonlyargs]]
    assigned = [
        line
        for parameter in order
        if parameter != "spark"
        for line in layout.statement(f"{parameter} = ", passed[parameter], indent)
    ]
    docstring, rest = body_lines(context, function, indent)
    return [*docstring, *imports_of(context, function, indent), *assigned, *rest]


def _wrapped(context: Context, task: PythonTask, arguments: Arguments) -> list[str]:
    """A body that calls the function."""
    indent = f"{context.indent}    "
    made = call(task.callee, arguments.args, arguments.keywords)
    lines = imports_of(context, task.callee, indent)
    if task.kind == "branch":
        chosen = layout.statement("chosen = ", ast.BoolOp(op=ast.Or(), values=[made, ast.Tuple(elts=[])]), indent)
        follow = layout.flat(context.need("tidegate", "follow"))
        return [*lines, *chosen, f"{indent}return {follow}(*([chosen] if isinstance(chosen, str) else chosen))"]
    if task.kind == "short_circuit":
        made_or_skip = ast.BoolOp(op=ast.Or(), values=[made, call(context.need("tidegate", "skip_rest"))])
        return [*lines, *layout.statement("return ", made_or_skip, indent)]
    if task.kind == "bash":
        argv = items(constant("bash"), constant("-c"), made)
        run = call(attribute(context.need_module("subprocess"), "run"), [argv], [keyword("check", constant(value=True))])
        return [*lines, *layout.statement("", run, indent)]
    return [*lines, *layout.statement("return ", made, indent)]


def _link(context: Context, variable: str, upstream: Sequence[str], item_of: str | None) -> None:
    if upstream:
        first = name(upstream[0]) if len(upstream) == 1 else items(*(name(task) for task in upstream))
        linked = ast.BinOp(left=first, op=ast.RShift(), right=name(variable))
        context.emit(["", *layout.statement("", linked, context.indent)])
    if item_of is not None:
        mapped = call(attribute(name(variable), "expand"), [], [keyword("over", name(item_of))])
        context.emit(["", *layout.statement("", mapped, context.indent)])


def docker_function(
    context: Context, class_name: str, options: Sequence[ast.keyword], environment: ast.expr, variable: str
) -> ast.expr:
    """A function that runs `docker run`, for a container whose variables are the result of another task."""
    task_id, rest = take([option for option in options if option.arg != "dag"], "task_id")
    if task_id is None:
        raise left_out(environment, "it has no task_id", "write an id")
    words, command, rest = docker_words(context, class_name, rest)
    split = attribute(context.need_module("shlex"), "split")
    is_list = command is None or isinstance(command, ast.List | ast.Tuple)
    program = [] if command is None else command.elts if isinstance(command, ast.List | ast.Tuple) else [command]
    inside = [in_function(part) for part in (*words, *map(context.translate, program))]
    read = _results(context, [context.translate(environment), *inside], [])
    values, parts = read.args[0], read.args[1:]
    tail = parts[len(words) :] if is_list else [ast.Starred(value=call(split, [parts[-1]]), ctx=ast.Load())]
    names = ast.Starred(value=name("names"), ctx=ast.Load())
    argv = items(constant("docker"), constant("run"), constant("--rm"), names, *parts[: len(words)], *tail)
    indent = f"{context.indent}    "
    everything = ast.parse("{**os.environ, **environment}", mode="eval").body
    context.need_module("os")
    run = call(
        attribute(context.need_module("subprocess"), "run"),
        [argv],
        [keyword("check", ast.Constant(value=True)), keyword("env", everything)],
    )
    body = [
        *layout.statement("variables = ", values, indent),
        f"{indent}environment = {{name: str(value) for name, value in variables.items()}}",
        f'{indent}names = [word for name in environment for word in ("--env", name)]',
        *layout.statement("", run, indent),
    ]
    given = task_options(context, rest, class_name)
    chosen = variable if variable and variable not in context.tasks else context.fresh("container")
    written_id = context.translate(task_id)
    decorator = call(attribute(name(context.dag_of(environment).name), "task"), [], [keyword("task_id", written_id), *given])
    context.emit(["", *layout.statement("@", decorator, context.indent)])
    context.emit([f"{context.indent}def {chosen}(spark, run{captured(context, [values, *parts])}):", *body, ""])
    register(context, chosen, written_id)
    _link(context, chosen, [task for task in read.upstream if task in _named(context, environment)], None)
    return name(chosen)


def _named(context: Context, node: ast.expr) -> set[str]:
    """The tasks of a value: what a text reads of others is no order, as in Airflow."""
    translated = context.translate(node)
    return {child.id for child in ast.walk(translated) if isinstance(child, ast.Name)}
