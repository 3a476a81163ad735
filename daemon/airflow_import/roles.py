"""Tasks that prepare a resource, and tasks that remove it: `@setup` and `@teardown`."""

import ast

from tidegate.daemon.airflow_import import layout
from tidegate.daemon.airflow_import.context import Context, TaskName
from tidegate.daemon.airflow_import.layout import attribute, call, items, keyword, name
from tidegate.daemon.airflow_import.report import omission


def write_role(context: Context, node: ast.Call, task: ast.expr, role: str, fails: ast.expr | None) -> None:
    """Mark a task that was written as a setup, or as the teardown of its arguments, or of the only setup before it."""
    if role == "setup" and isinstance(task, ast.Name):
        context.setups.append((context.dag, task.id))
        context.emit(["", *layout.statement("", call(attribute(task, "as_setup")), context.indent)])
    before = [setup for dag, setup in context.setups if dag == context.dag]
    named = [setup for setup in before if setup in _passed(context, node)]
    prepared = named or (before if len(before) == 1 else [])
    if role == "teardown" and prepared:
        setups = items(*(name(setup) for setup in prepared))
        options = [keyword("setups", setups), *([keyword("on_failure_fail_dagrun", fails)] if fails is not None else [])]
        context.emit(["", *layout.statement("", call(attribute(task, "as_teardown"), [], options), context.indent)])
    elif role == "teardown":
        context.leave_out(omission(node, "@teardown", "a teardown names its setups", "write as_teardown(setups=…)"))


def _passed(context: Context, node: ast.Call) -> set[str]:
    """The tasks whose results a call gets."""
    bindings = (context.bindings.get(child.id) for child in ast.walk(node) if isinstance(child, ast.Name))
    return {binding.name for binding in bindings if isinstance(binding, TaskName)}
