"""Operators as tasks: `dag.empty`, `dag.command`, `dag.sql` and `dag.submit`. `functions` has those of Python."""

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from tidegate.daemon.airflow_import import templates, vocabulary
from tidegate.daemon.airflow_import.arguments import take, task_options
from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.layout import attribute, call, constant, items, keyword, name
from tidegate.daemon.airflow_import.report import LeftOutError, left_out, omission, shown
from tidegate.daemon.spark.runner.submit import conf_problem

Options = Sequence[ast.keyword]


def task_call(context: Context, node: ast.expr, class_name: str, options: Options) -> ast.Call:
    """The task of an operator. One without an equivalent becomes a task that fails, so that the order of the tasks stays."""
    dag = context.dag_of(node)
    task_id, rest = take([option for option in options if option.arg != "dag"], "task_id")
    if task_id is None:
        raise left_out(node, "it has no task_id", "write an id")
    maker = _MAKERS.get(class_name)
    written_id = context.translate(task_id)
    try:
        if maker is None:
            raise left_out(node, *vocabulary.operator_hint(class_name))
        method, args, specific, common = maker(context, class_name, rest)
    except LeftOutError as left:
        return placeholder(context, node, class_name, left, options)
    return call(attribute(name(dag.name), method), [written_id, *args], [*specific, *task_options(context, common, class_name)])


def placeholder(context: Context, node: ast.expr, class_name: str, left: LeftOutError, options: Options) -> ast.Call:
    """A task that fails; what its operator would have done is listed, its options are kept."""
    task_id, rest = take(options, "task_id")
    written_id = context.translate(task_id) if task_id is not None else constant("left_out")
    what = f"{class_name} {shown(task_id)}" if task_id is not None else class_name
    context.leave_out(omission(node, what, left.omission.why, left.omission.instead), remark=True)
    known = [
        option
        for option in rest
        if option.arg in (*vocabulary.SAME_TASK_OPTIONS, "trigger_rule", "outlets", *vocabulary.DURATION_OPTIONS)
    ]
    kept = task_options(context, known, class_name)
    return call(attribute(name(context.dag_of(node).name), "command"), [written_id, items(constant("false"))], kept)


Made = tuple[str, list[ast.expr], list[ast.keyword], Options]
"""A method of `Dag`, its arguments after the id, its own keywords, and the options that all tasks have."""


def is_task(class_name: str) -> bool:
    """Whether a name of Airflow is that of an operator or a sensor."""
    return class_name in vocabulary.SQL or class_name.endswith(
        ("Operator", "Sensor", "SensorAsync", "OperatorAsync", "ExternalTaskMarker")
    )


def _empty(_context: Context, _class_name: str, options: Options) -> Made:
    return "empty", [], [], options


def _bash(context: Context, class_name: str, options: Options) -> Made:
    command, rest = take(options, "bash_command")
    env, rest = take(rest, "env")
    if command is None:
        raise left_out(name(class_name), "it has no bash_command", "write a command")
    if _text(command).rstrip().endswith((".sh", ".bash")) and not _text(command).endswith(" "):
        raise left_out(
            command,
            "Airflow reads the command from that file as a template",
            "run the file below the DAG folder with dag.command",
        )
    argv = items(constant("bash"), constant("-c"), template(context, command))
    environment = [] if env is None else _environment(context, env)
    return "command", [argv], environment, rest


def _environment(context: Context, node: ast.expr) -> list[ast.keyword]:
    try:
        return [keyword("env", template(context, node))]
    except LeftOutError as left:
        context.leave_out(omission(node, "env= of BashOperator", left.omission.why, left.omission.instead))
        return []


def _sql(context: Context, class_name: str, options: Options) -> Made:
    statement, rest = take(options, "sql", "hql")
    if statement is None:
        raise left_out(name(class_name), "it has no statement", "write the statement")
    if not isinstance(statement, ast.Constant | ast.JoinedStr | ast.Name | ast.BinOp | ast.Call):
        raise left_out(statement, "a task runs one statement", "write a task for each statement")
    if _text(statement).strip().endswith((".sql", ".hql")):
        raise left_out(statement, "Airflow reads the statement from that file", "write Path(…).read_text(), or the statement")
    if ";" in _text(statement).strip().rstrip(";"):
        raise left_out(statement, "a task runs one statement", "write a task for each statement")
    connections = [option for option in rest if (option.arg or "").endswith("conn_id")]
    for option in connections:
        context.leave_out(omission(option.value, f"{option.arg}= of {class_name}", *vocabulary.OPTION_HINTS["conn_id"]))
    return "sql", [_without_semicolon(template(context, statement))], [], [option for option in rest if option not in connections]


def _submit(context: Context, class_name: str, options: Options) -> Made:
    application, rest = take(options, "application")
    arguments, rest = take(rest, "application_args")
    conf, rest = take(rest, "conf")
    if application is None:
        raise left_out(name(class_name), "it has no application", "write the path of the application below the DAG folder")
    specific = [] if arguments is None else [keyword("args", _texts(context, arguments))]
    settings = _conf(context, conf, [option for option in rest if option.arg in vocabulary.SPARK_CONF])
    if settings.keys:
        specific.append(keyword("conf", settings))
    return (
        "submit",
        [_application(context, application)],
        specific,
        [option for option in rest if option.arg not in vocabulary.SPARK_CONF],
    )


def _application(context: Context, node: ast.expr) -> ast.expr:
    """The path of the application; one outside of the DAG folder is listed, and its name kept."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return context.translate(node)
    if templates.is_template(node.value):
        raise left_out(node, "the path of an application is no template", "write the path")
    if "://" in node.value or node.value.startswith(("/", "..")):
        file = PurePosixPath(node.value).name
        context.leave_out(
            omission(node, f"application {node.value}", "an application lies below the DAG folder", f"copy it there as {file}")
        )
        return constant(file)
    return node


Setting = tuple[ast.expr | None, ast.expr]
"""A name and a value; without a name, a dict of settings."""


def _conf(context: Context, conf: ast.expr | None, options: Options) -> ast.Dict:
    """The configuration of Spark, with the keywords that stand for a setting; without the settings that no task may set."""
    settings: list[Setting] = []
    conf = _literal(context, conf)
    if isinstance(conf, ast.Dict):
        pairs = zip(conf.keys, conf.values, strict=True)
        settings += [(key and context.translate(key), _as_text(context, value)) for key, value in pairs if _may_set(context, key)]
    elif conf is not None:
        settings.append((None, context.translate(conf)))
    for option in options:
        key = ast.copy_location(constant(vocabulary.SPARK_CONF[option.arg or ""]), option.value)
        if _may_set(context, key, f"{option.arg}="):
            settings.append((key, _as_text(context, option.value)))
    return ast.Dict(keys=[key for key, _ in settings], values=[value for _, value in settings])


def _may_set(context: Context, key: ast.expr | None, what: str = "") -> bool:
    """Whether a task may set the setting. One that is refused is listed."""
    problem = _refusal(key)
    if problem is not None and key is not None:
        left = omission(
            key, f"{what or shown(key)} of SparkSubmitOperator", problem, "leave it out, or ask an operator to set it"
        )
        context.leave_out(left)
    return problem is None


def _refusal(key: ast.expr | None) -> str | None:
    return conf_problem(key.value, "") if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _literal(context: Context, node: ast.expr | None) -> ast.expr | None:
    """The dict that a variable holds, if a value of it has to be written as text, or a task may not set all of its settings."""
    value = context.constants.get(node.id) if isinstance(node, ast.Name) else None
    if isinstance(value, ast.Dict) and (not all(map(_is_text, value.values)) or any(map(_refusal, value.keys))):
        return value
    return node


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _texts(context: Context, node: ast.expr) -> ast.expr:
    if isinstance(node, ast.List | ast.Tuple):
        return items(*(_as_text(context, element) for element in node.elts))
    return context.translate(node)


def _as_text(context: Context, node: ast.expr) -> ast.expr:
    """A literal as the text that spark-submit gets; any other value through `str`, unless it is a text already."""
    match node:
        case ast.Constant(value=bool()):
            return constant(str(node.value).lower())
        case ast.Constant(value=int() | float()):
            return constant(str(node.value))
        case ast.Constant() | ast.JoinedStr() | ast.Starred():
            return template(context, node)
        case _:
            return call(name("str"), [template(context, node)])


def template(context: Context, node: ast.expr) -> ast.expr:
    """An expression whose strings are templates. Raises LeftOutError for one that no run could render, with all reasons."""
    translated = context.translate(node)
    for text in ast.walk(translated):
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and templates.is_template(text.value):
            text.value = templates.translated(text.value)
            if problems := ", ".join(templates.problems(text.value)):
                what = f"template {text.value}"
                raise left_out(node, problems, "write a name of the table in schemas/docs/writing-dags.md", what)
    return translated


def _without_semicolon(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.rstrip().endswith(";"):
        return constant(node.value.rstrip().rstrip(";"))
    return node


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


_MAKERS: Mapping[str, Callable[[Context, str, Options], Made]] = {
    **dict.fromkeys(vocabulary.EMPTY, _empty),
    **dict.fromkeys(vocabulary.BASH, _bash),
    **dict.fromkeys(vocabulary.SQL, _sql),
    **dict.fromkeys(vocabulary.SUBMIT, _submit),
}
