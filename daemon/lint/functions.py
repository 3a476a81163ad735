"""Functions of DAG files that name what their task does not have, read a loop too late, or build a DAG that never comes to be."""

import ast
from collections.abc import Collection, Iterator

from tidegate.daemon.lint.finding import Mistake
from tidegate.daemon.spark.runner.results import Results, no_result
from tidegate.schemas.dag import BaseTask, DagSpec
from tidegate.schemas.error import did_you_mean


def unknown_tasks(spec: DagSpec, task: BaseTask, function: ast.FunctionDef) -> Iterator[Mistake]:
    """Choices of tasks that do not come directly after this one, and results of tasks that do not come directly before it."""
    below = [each.task_id for each in spec.tasks if task.task_id in each.upstream]
    run = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)][1:2]
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id="follow") | ast.Attribute(attr="follow"), args=arguments):
                yield from _unknown_choices(arguments, below)
            case ast.Subscript(ast.Attribute(ast.Name(id=name), attr="results"), slice=ast.Constant(str(key))) if [name] == run:
                if key == task.over or key not in task.upstream:
                    problem = no_result(Results({}, task.upstream, task.over), key)
                    yield Mistake(key, f"the function fails: {problem}", node.lineno)


def _unknown_choices(arguments: Collection[ast.expr], below: Collection[str]) -> Iterator[Mistake]:
    for argument in arguments:
        match argument:
            case ast.Constant(value=str(chosen)) if chosen not in below:
                known = f"; directly after it come {', '.join(below)}" if below else "; no task comes after it"
                hint = did_you_mean(chosen, below) or known
                reason = f"the function follows {chosen!r}, which is no task directly after it{hint}"
                yield Mistake(chosen, reason, argument.lineno)


def late_variables(tree: ast.AST) -> Iterator[Mistake]:
    """Variables of loops that the functions of tasks in them read: when a task runs, they have their last value."""
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For):
            inside = [node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.FunctionDef)]
            for function in (node for node in inside if any(map(_of_task, node.decorator_list))):
                yield from (_late(name, function) for name in sorted(_stored(loop.target) & _read(function)))


def _of_task(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Attribute) and called.attr == "task"


def _late(name: str, function: ast.FunctionDef) -> Mistake:
    given = ", ".join([*(argument.arg for argument in function.args.args), f"{name}={name}"])
    reason = f"function {function.name} reads {name!r} of the loop around it, which has its last value when a task runs"
    return Mistake(name, f"{reason}; write def {function.name}({given})", function.lineno)


def _stored(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _read(function: ast.FunctionDef) -> set[str]:
    """The names that the body reads and neither the function nor a part of it binds."""
    inside = [node for statement in function.body for node in ast.walk(statement)]
    names = [node for node in inside if isinstance(node, ast.Name)]
    functions = [node for node in (function, *inside) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    bound = {argument.arg for node in functions for argument in _all(node)}
    bound |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - bound


def _all(function: ast.FunctionDef | ast.Lambda) -> Iterator[ast.arg]:
    arguments = function.args
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from filter(None, (arguments.vararg, arguments.kwarg))


def uncalled_builders(tree: ast.Module) -> Iterator[Mistake]:
    """Functions at the top of the file that build a DAG, and that nothing in it names."""
    named = {name for node in ast.walk(tree) for name in _names(node)}
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef) or function.decorator_list or function.name in named:
            continue
        if any(map(_builds, ast.walk(function))):
            reason = f"function {function.name} builds a DAG, and nothing in this file calls it"
            yield Mistake(function.name, f"{reason}, so the file does not have the DAG", function.lineno)


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
            yield name
        case ast.Constant(value=str(name)) if name.isidentifier():  # `__all__`, and globals()["make"]
            yield name


def _builds(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="Dag") | ast.Attribute(value=ast.Name(id="tidegate"), attr="Dag")):
            return True
        case _:
            return False
