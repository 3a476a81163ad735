"""Operators as tasks: `dag.empty`, `dag.command` and `dag.sql`. `applications` has Spark, `functions` has Python."""

import ast
from collections.abc import Callable, Mapping

from tidegate.daemon.airflow_import import containers, vocabulary
from tidegate.daemon.airflow_import.applications import application_task, is_elsewhere
from tidegate.daemon.airflow_import.arguments import Convert, Made, Options, own_options, take, task_options, template
from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.layout import attribute, call, constant, items, name
from tidegate.daemon.airflow_import.report import LeftOutError, left_out, omission, shown
from tidegate.daemon.airflow_import.texts import text_values


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
    """A task that fails; what its operator would have done is reported, its options are kept."""
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


def is_task(class_name: str) -> bool:
    """Whether a name of Airflow is that of an operator or a sensor."""
    return class_name in vocabulary.SQL or class_name.endswith(
        ("Operator", "Sensor", "SensorAsync", "OperatorAsync", "ExternalTaskMarker")
    )


def _empty(_context: Context, _class_name: str, options: Options) -> Made:
    return "empty", [], [], options


def _bash(context: Context, class_name: str, options: Options) -> Made:
    command, rest = take(options, "bash_command")
    own, rest = own_options(context, rest, class_name, _OF_COMMANDS)
    if command is None:
        raise left_out(name(class_name), "it has no bash_command", "write a command")
    if _text(command).rstrip().endswith((".sh", ".bash")) and not _text(command).endswith(" "):
        raise left_out(
            command,
            "Airflow reads the command from that file as a template",
            "run the file below the DAG folder with dag.command",
        )
    argv = items(constant("bash"), constant("-c"), template(context, command))
    return "command", [argv], own, rest


def _working_folder(context: Context, node: ast.expr) -> ast.expr:
    """The folder of a command. One outside of the DAG folder is left out."""
    if not _text(node) or is_elsewhere(_text(node)):
        raise left_out(node, *vocabulary.OPTION_HINTS["cwd"])
    return template(context, node)


_OF_COMMANDS: Mapping[str, tuple[str, Convert]] = {"env": ("env", text_values), "cwd": ("cwd", _working_folder)}


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
    connections = [option for option in rest if (option.arg or "").endswith("conn_id") and class_name not in vocabulary.SPARK_SQL]
    for option in connections:
        context.leave_out(omission(option.value, f"{option.arg}= of {class_name}", *vocabulary.DATABASE_HINT))
    if not connections and class_name not in (*vocabulary.SPARK_SQL, "HiveOperator"):
        context.leave_out(omission(statement, f"the database of {class_name}", *vocabulary.DATABASE_HINT))
    return "sql", [_without_semicolon(template(context, statement))], [], [option for option in rest if option not in connections]


def _without_semicolon(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.rstrip().endswith(";"):
        return constant(node.value.rstrip().rstrip(";"))
    return node


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


_MAKERS: Mapping[str, Callable[[Context, str, Options], Made]] = {
    **containers.MAKERS,
    **dict.fromkeys(vocabulary.EMPTY, _empty),
    **dict.fromkeys(vocabulary.BASH, _bash),
    **dict.fromkeys(vocabulary.SQL, _sql),
    **dict.fromkeys(vocabulary.SUBMIT, application_task),
}
