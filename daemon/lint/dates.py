"""Tasks that read dates in DAGs with runs that have none."""

import ast
from collections.abc import Container, Iterator, Sequence

from tidegate.daemon.lint.finding import Mistake
from tidegate.daemon.lint.tasks import templates
from tidegate.daemon.spark.runner.template import ATTRIBUTES, dates_needed, dates_shown
from tidegate.schemas.dag import BaseTask, DagSpec, FunctionTask

INSTEAD = {
    "ds": "run_after.strftime('%Y-%m-%d')",
    "ds_nodash": "run_after.strftime('%Y%m%d')",
    "ts": "run_after.isoformat()",
    "ts_nodash": "run_after.strftime('%Y%m%dT%H%M%S')",
}
"""The replacements of dates, in the same form, which each run has; `run_after` replaces all others."""

TELLING = (*ATTRIBUTES, "run_type")
"""The attributes that tell a function whether its run has dates."""


def missing_dates(spec: DagSpec, task: BaseTask, function: ast.FunctionDef | None) -> Iterator[Mistake]:
    """The dates that a task needs, and that runs of its DAG lack even if the schedule makes them.

    `function` is that of the task, if the file shows it.
    """
    if spec.timetable is not None and (spec.schedule is None or spec.together):
        return
    for what, text in templates(task):
        yield from (
            Mistake(text, f"{what} reads {name!r}, and fails{_why(spec, *_in_template(name))}") for name in dates_needed(text)
        )
        yield from (Mistake(text, f"{what} shows {_none(spec, name, *_in_template(name))}") for name in dates_shown(text))
    if isinstance(task, FunctionTask) and function is not None:
        for node in _unguarded(function):
            reason = f"the function reads {_none(spec, node.attr, *_in_function(node.attr))}"
            yield Mistake(node.attr, reason, node.lineno)


def _none(spec: DagSpec, name: str, instead: str, either: str) -> str:
    return f"'run.{name}', and that is None{_why(spec, instead, either)}"


def _why(spec: DagSpec, instead: str, either: str) -> str:
    """Why there is no date, and what to use: `instead` where no run has one, `either` where some do."""
    if spec.timetable is not None:
        return f" in runs by dataset, which have no dates; use {either}"
    how = f"use {instead}, or give each run a date by `runs trigger --logical-date`"
    return f", because the schedule of the DAG gives runs no dates; {how}"


def _in_template(name: str) -> tuple[str, str]:
    instead = INSTEAD.get(name, "run_after")
    return f"{{{{ {instead} }}}}", f"{{{{ {name} | default({instead}) }}}}"


def _in_function(name: str) -> tuple[str, str]:
    instead = f"run.{INSTEAD.get(name, 'run_after')}"
    return f"`{instead}`", f"`run.{name} or {instead}`"


def _unguarded(function: ast.FunctionDef) -> Iterator[ast.Attribute]:
    """The first read of each date of the run; none of a function that looks whether there is one."""
    run = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)][1:2]
    copies = {name for node in ast.walk(function) for name in _copies(node, run)}
    if any(_tells(part, run, copies) for node in ast.walk(function) for part in _looked_at(node)):
        return
    found: dict[str, ast.Attribute] = {}
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if [name] == run and attribute in ATTRIBUTES:
                found.setdefault(attribute, node)
    yield from found.values()


def _copies(node: ast.AST, run: Sequence[str]) -> Iterator[str]:
    """The variables that an assignment gives a date of the run."""
    match node:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.NamedExpr(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            targets = [target]
        case _:
            return
    if _tells(value, run, ()):
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _tells(part: ast.AST, run: Sequence[str], copies: Container[str]) -> bool:
    """Whether it is a TELLING attribute of the run, or a variable with one."""
    match part:
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return name in run and attribute in TELLING
        case ast.Name(id=name):
            return name in copies
        case _:
            return False


def _looked_at(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a condition tests, and those of a block whose errors are handled."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test) | ast.Match(subject=test):
            parts: list[ast.AST] = [test]
        case ast.BoolOp() | ast.Compare():
            parts = [node]
        case ast.Try(body=body, handlers=[_, *_]):
            parts = [*body]
        case _:
            return
    for part in parts:
        yield from ast.walk(part)
