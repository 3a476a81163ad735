"""Tasks that fail, in place of what has no equivalent in the order of other tasks."""

import ast

from tidegate.daemon.airflow_import.context import Context, Lost, TaskName
from tidegate.daemon.airflow_import.layout import attribute, call, constant, items, name, statement
from tidegate.daemon.airflow_import.report import LeftOutError, omission, shown


def bridge(context: Context, node: ast.expr, left: LeftOutError) -> str:
    """The variable of a task that fails, which further links use as well. In a loop there is one for all rounds, before it."""
    wanted = "".join(character if character.isalnum() else "_" for character in _name(node)).strip("_") or "left_out"
    variable = node.id if isinstance(node, ast.Name) else context.fresh(f"{wanted}_task")
    task_id = context.fresh_id(wanted)
    listed = omission(node, f"{shown(node)} in the order of tasks", left.omission.why, left.omission.instead)
    context.leave_out(listed)
    made = call(attribute(name(context.dag_of(node).name), "command"), [constant(task_id), items(constant("false"))])
    lost = context.bindings.get(node.id) if isinstance(node, ast.Name) else None
    place = context.before_blocks(lost.line if isinstance(lost, Lost) else None)
    group = f"{place.group}." if place.group else ""
    context.insert(place, [place.indent + line for line in listed.remark()] + statement(f"{variable} = ", made, place.indent))
    context.tasks[variable] = TaskName(variable, constant(f"{group}{task_id}"))
    context.bind(variable, context.tasks[variable])
    context.bridges.add(variable)
    return variable


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=identifier):
            return identifier
        case ast.Attribute(attr=identifier):
            return identifier
        case ast.Call(func=function):
            return _name(function)
        case ast.Subscript(value=value):
            return _name(value)
        case _:
            return ""
