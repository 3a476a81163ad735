"""The bodies of functions: their lines as written, the imports they need, and what they use of Airflow."""

import ast
import textwrap
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from datetime import datetime

from tidegate.daemon.airflow_import.context import Context, Held, Lost
from tidegate.daemon.airflow_import.facts import FunctionNode, imported_paths
from tidegate.daemon.airflow_import.report import LeftOutError, omission, shown
from tidegate.daemon.airflow_import.source import first_line, last_line
from tidegate.daemon.airflow_import.vocabulary import COMPUTED_CONTEXT, CONTEXT, UNKNOWN_CONTEXT, operator_hint


def body_lines(context: Context, function: FunctionNode, indent: str) -> tuple[list[str], list[str]]:
    """The docstring and the other lines of a function at an indentation, with their comments."""
    source = context.source
    documented = ast.get_docstring(function, clean=False) is not None
    rest = function.body[1:] if documented else function.body
    docstring = source.block(function.body[0], indent) if documented else []
    if not rest:
        return docstring, []
    if first_line(rest[0]) == function.lineno:
        return docstring, [line for node in rest for line in source.block(node, indent)]
    start = last_line(function.body[0]) + 1 if documented else first_line(rest[0])
    while start - 1 in source.comments and start - 1 > function.lineno:
        start -= 1
    return docstring, source.moved(start, last_line(function), rest[0].col_offset, indent)


def imports_of(context: Context, node: ast.AST, indent: str) -> list[str]:
    """The imports of other packages that a function uses; the parser of DAG files need not have them."""
    used = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    moved = sorted({context.external[identifier] for identifier in used if identifier in context.external})
    return [f"{indent}{line}" for line in moved]


def key_of(node: ast.AST) -> tuple[ast.expr, str] | None:
    """The dict that an expression reads a key of, as `d["a"]` or `d.get("a")`, and the key."""
    match node:
        case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
            return value, key
        case ast.Call(func=ast.Attribute(value=value, attr="get" | "pop"), args=[ast.Constant(value=str(key)), *_]):
            return value, key
        case _:
            return None


def read_key(node: ast.AST, context_name: str) -> str | None:
    found = key_of(node)
    return found[1] if found and isinstance(found[0], ast.Name) and found[0].id == context_name else None


def check_function(context: Context, node: FunctionNode) -> None:
    """Report what the body uses of Airflow, and note annotations that cannot be evaluated."""
    note_annotations(context, node)
    local = {child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)}
    local |= {argument.arg for argument in all_arguments(node)} | _imported(node)
    for statement in node.body:
        for child in ast.walk(statement):
            _check_node(context, node, child, local)
    _check_context(context, node)


def note_annotations(context: Context, node: FunctionNode) -> None:
    """Annotations that cannot be evaluated stay texts."""
    annotations = [argument.annotation for argument in all_arguments(node)] + [node.returns]
    if any(is_unavailable(context, annotation) for annotation in annotations if annotation is not None):
        context.future_annotations = True


def uses_airflow(context: Context, node: FunctionNode) -> bool:
    """Whether a function cannot be called while the file is parsed: it needs Airflow, or another package."""
    names = [child for child in ast.walk(node) if isinstance(child, ast.Name)]
    outside = (context.external.keys() - context.local.keys()) | context.runtime_only
    own = {child.arg for child in ast.walk(node) if isinstance(child, ast.arg)}
    own |= {child.id for child in names if isinstance(child.ctx, ast.Store)}
    lost = {name for name, binding in context.bindings.items() if isinstance(binding, Lost | Held)} - own
    if any(context.airflow_name(used) or used.id in outside | lost for used in names):
        return True
    read = (child for child in ast.walk(node) if isinstance(child, ast.Name | ast.Attribute))
    elsewhere = (found for child in read if (found := context.found_elsewhere(child)) is not None)
    return any(name in there.runtime_only or isinstance(there.bindings.get(name), Lost | Held) for there, name in elsewhere)


def _check_node(context: Context, function: FunctionNode, child: ast.AST, local: set[str]) -> None:
    if isinstance(child, ast.Import | ast.ImportFrom) and any(path.split(".")[0] == "airflow" for path in imported_paths(child)):
        context.leave_out(omission(child, f"{shown(child)} in {function.name}", *operator_hint(child.names[0].name)))
    if not isinstance(child, ast.Name) or child.id in local or child.id in context.external:
        return
    airflow = context.airflow_name(child)
    lost = context.unavailable(child) if airflow is None and child.id in context.bindings else None
    if airflow is not None:
        context.leave_out(omission(child, f"{airflow} in {function.name}", *operator_hint(airflow)))
    elif lost is not None and child.id != function.name:
        context.leave_out(omission(child, f"{child.id} in {function.name}", lost.omission.why, lost.omission.instead))


def _check_context(context: Context, node: FunctionNode) -> None:
    """Report the parts of Airflow's context that a run does not have."""
    keywords = node.args.kwarg.arg if node.args.kwarg else ""
    dates = {argument.arg for argument in all_arguments(node)} & _DATES if node.name in context.facts.task_functions else set()
    for child in ast.walk(node):
        if isinstance(child, ast.Attribute) and _is_date(child.value, dates, keywords) and child.attr not in dir(datetime):
            what = f"{child.attr} of a date in {node.name}"
            context.leave_out(omission(child, what, "dates are those of Python, not of Pendulum", "use datetime and timedelta"))
        key = read_key(child, keywords) if keywords else None
        if key is not None and key not in CONTEXT and key not in COMPUTED_CONTEXT:
            leave_out_key(context, child, key, node.name)
    if keywords and node.name in context.facts.task_functions and _uses_whole(node, keywords):
        context.leave_out(
            omission(
                node.args.kwarg or node,
                f"**{keywords} of {node.name}",
                "a run has no context dict",
                "read single values, such as run.ds",
            )
        )


_DATES = frozenset({"execution_date", "logical_date", "data_interval_start", "data_interval_end"})


def _is_date(node: ast.expr, dates: AbstractSet[str], keywords: str) -> bool:
    """Whether an expression is a date of the context: a parameter, or `context["logical_date"]`."""
    return (isinstance(node, ast.Name) and node.id in dates) or (bool(keywords) and read_key(node, keywords) in _DATES)


def _uses_whole(node: FunctionNode, keywords: str) -> bool:
    """Whether a function uses its `**context` other than by reading a key."""
    uses = sum(isinstance(child, ast.Name) and child.id == keywords for child in ast.walk(node))
    return uses > sum(read_key(child, keywords) is not None for child in ast.walk(node))


def leave_out_key(context: Context, node: ast.AST, key: str, function: str) -> None:
    """Report a part of Airflow's context that a function wants, and a run does not have."""
    instead = UNKNOWN_CONTEXT.get(key, "see the attributes of run in schemas/docs/writing-dags.md")
    context.leave_out(omission(node, f"context {key} in {function}", "a run has no such attribute", instead))


def own_decorators(context: Context, node: FunctionNode) -> list[ast.expr]:
    """The decorators that are not of Airflow."""
    heads = ((given, given.func if isinstance(given, ast.Call) else given) for given in node.decorator_list)
    return [decorator for decorator, head in heads if context.airflow_name(head) is None]


def function_lines(context: Context, node: FunctionNode, indent: str, *, decorators: Sequence[ast.expr] = ()) -> list[str]:
    """A function as written, with the imports of other packages that it uses at its start."""
    inner = f"{indent}    "
    first = decorators[0].lineno if decorators else node.lineno
    imports = imports_of(context, ast.Module(body=node.body, type_ignores=[]), inner)
    whole = context.source.moved(first, last_line(node), node.col_offset, indent)
    if not imports:
        return whole
    if context.source.shares_a_line(node.body[0]):
        return _unparsed(node, [line.strip() for line in imports], indent, decorators=decorators)
    docstring, rest = body_lines(context, node, inner)
    return [*whole[: len(whole) - len(docstring) - len(rest)], *docstring, *imports, *rest]


def class_lines(context: Context, node: ast.ClassDef, indent: str) -> list[str]:
    """A class as written, with the imports of other packages that its methods use at their start."""
    lines, first = context.source.block(node, indent), first_line(node)
    for child in reversed(node.body):
        if isinstance(child, FunctionNode) and not context.source.shares_a_line(node):
            inner = indent + " " * (child.col_offset - node.col_offset)
            lines[first_line(child) - first : last_line(child) - first + 1] = function_lines(
                context, child, inner, decorators=child.decorator_list
            )
    return lines


def _unparsed(node: FunctionNode, imports: Sequence[str], indent: str, *, decorators: Sequence[ast.expr]) -> list[str]:
    """A function whose body begins on the line of its head, with imports before the body."""
    written = copy(node)
    written.body = [*ast.parse("\n".join(imports)).body, *node.body]
    written.decorator_list = list(decorators)
    return textwrap.indent(ast.unparse(written), indent).splitlines()


def evaluated_parts(node: FunctionNode) -> list[ast.expr]:
    """What Python evaluates when it defines a function: the decorators and the defaults."""
    return [*node.decorator_list, *node.args.defaults, *(default for default in node.args.kw_defaults if default)]


def all_arguments(node: FunctionNode | ast.Lambda) -> list[ast.arg]:
    given = node.args
    extra = [argument for argument in (given.vararg, given.kwarg) if argument]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *extra]


def _imported(node: ast.AST) -> set[str]:
    imports = (child for child in ast.walk(node) if isinstance(child, ast.Import | ast.ImportFrom))
    return {(alias.asname or alias.name).split(".")[0] for found in imports for alias in found.names}


def is_unavailable(context: Context, annotation: ast.expr) -> bool:
    try:
        context.translate(annotation)
    except LeftOutError:
        return True
    return False
