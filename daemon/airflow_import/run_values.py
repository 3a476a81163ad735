"""What tasks get as values: attributes of the run for the context of Airflow, and variables of the file."""

import ast
import builtins
import re
import sys
from collections.abc import Sequence

from tidegate.daemon.airflow_import import templates
from tidegate.daemon.airflow_import.bodies import all_arguments, leave_out_key, read_key
from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.facts import FunctionNode
from tidegate.daemon.airflow_import.layout import attribute, call, copied, keyword, name
from tidegate.daemon.airflow_import.report import left_out, omission, shown
from tidegate.daemon.airflow_import.vocabulary import COMPUTED_CONTEXT, CONTEXT, NOT_PASSED, UNKNOWN_CONTEXT
from tidegate.schemas.text import is_template

RUN = name("run")
_TEXTS = frozenset({"ds", "ts", "run_id", "dag_id", "task_id", *COMPUTED_CONTEXT})


def value_of_run(key: str) -> ast.expr | None:
    """The value of a name in the context of Airflow; None for one that a run does not have."""
    if key in COMPUTED_CONTEXT:
        return ast.parse(COMPUTED_CONTEXT[key], mode="eval").body
    return attribute(RUN, CONTEXT[key]) if key in CONTEXT else None


def rendered(key: str) -> ast.expr | None:
    """What the template of one name gives: a text."""
    value = value_of_run(key)
    return value if value is None or key in _TEXTS else call(name("str"), [value])


def in_function(node: ast.expr) -> ast.expr:
    """A text inside of a function, where no template is rendered: its expressions are values of the run.

    Raises LeftOutError for one that is more than a name of the run, a parameter or a result.
    """
    visited: ast.expr = _Rendered().visit(copied(node))
    return visited


class _Rendered(ast.NodeTransformer):
    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        parts = [self._text(part) if isinstance(part, ast.Constant) else part for part in node.values]
        flat = [value for part in parts for value in (part.values if isinstance(part, ast.JoinedStr) else [part])]
        return ast.JoinedStr(values=flat)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self._text(node)

    def _text(self, node: ast.Constant) -> ast.Constant | ast.JoinedStr:
        if not isinstance(node.value, str) or not is_template(node.value):
            return node
        text = templates.translated(node.value)
        values: list[ast.expr] = []
        for index, piece in enumerate(re.split(r"(\{\{.*?\}\}|\{%.*?%\})", text)):
            if index % 2:
                values.append(ast.FormattedValue(value=_value(node, piece), conversion=-1))
            elif piece:
                values.append(ast.Constant(value=piece))
        return ast.JoinedStr(values=values)


_RESULT = re.compile(r"""\{\{\s*results\[['"]([\w.-]+)['"]\]\s*\}\}""")
_PARAM = re.compile(r"""\{\{\s*params(?:\.(\w+)|\[['"]([^'"]+)['"]\])\s*\}\}""")


def _value(node: ast.expr, expression: str) -> ast.expr:
    only = rendered(templates.only_name(expression) or "")
    if only is not None:
        return only
    result, param = _RESULT.fullmatch(expression), _PARAM.fullmatch(expression)
    if result is not None:
        return ast.Subscript(value=attribute(RUN, "results"), slice=ast.Constant(value=result[1]), ctx=ast.Load())
    if param is not None:
        return ast.Subscript(value=attribute(RUN, "params"), slice=ast.Constant(value=param[1] or param[2]), ctx=ast.Load())
    raise left_out(node, f"{expression} is not rendered in a function", "compute it in the function")


def context_arguments(
    context: Context, callee: ast.expr, function: FunctionNode | None, positional: int, given: set[str | None]
) -> list[ast.keyword]:
    """What Airflow passes by the names of the parameters. What a run does not have is left out."""
    called = callee if isinstance(callee, ast.Lambda) else function
    if called is None:
        _report_unknown(context, callee)
        return []
    parameters = _parameters(called, positional)
    for parameter in parameters:
        if parameter.arg in UNKNOWN_CONTEXT and parameter.arg not in given:
            leave_out_key(context, parameter, parameter.arg, getattr(called, "name", "lambda"))
    named = [parameter.arg for parameter in parameters if parameter.arg not in NOT_PASSED]
    wanted = [*named, *(_read_keys(called, called.args.kwarg.arg) if called.args.kwarg else [])]
    known = ((key, value_of_run(key)) for key in dict.fromkeys(wanted) if key not in given)
    passed = [keyword(key, value) for key, value in known if value is not None]
    return passed + ([keyword("spark", name("spark"))] if "spark" in wanted and "spark" not in given else [])


def captured(context: Context, values: Sequence[ast.expr]) -> str:
    """Parameters that keep the values which variables have now, where Airflow evaluates the arguments of a task."""
    read = {found for value in values for found in free_names(value)}
    functions = {value.id for value in values if isinstance(value, ast.Name) and value.id in context.facts.functions}
    changing = context.facts.changing & (context.bound | functions) - {"spark", "run", *context.external}
    kept = [*context.loops, *sorted(changing - {*context.loops})]
    return "".join(f", {variable}={variable}" for variable in kept if variable in read)


def free_names(node: ast.AST) -> set[str]:
    """The names that a function or an expression reads and does not set."""
    names = [child for child in ast.walk(node) if isinstance(child, ast.Name)]
    own = {child.arg for child in ast.walk(node) if isinstance(child, ast.arg)}
    return {child.id for child in names} - own - {child.id for child in names if isinstance(child.ctx, ast.Store)}


def _parameters(called: FunctionNode | ast.Lambda, positional: int) -> list[ast.arg]:
    """The parameters with a name that positional arguments do not fill."""
    filled = [*called.args.posonlyargs, *called.args.args][:positional]
    collecting = (called.args.vararg, called.args.kwarg)
    return [parameter for parameter in all_arguments(called) if parameter not in filled and parameter not in collecting]


def _read_keys(called: FunctionNode | ast.Lambda, context_name: str) -> list[str]:
    """The keys that a function reads from its `**context`, as `context["ds"]` or `context.get("ds")`."""
    return [key for node in ast.walk(called) if (key := read_key(node, context_name)) is not None]


def _report_unknown(context: Context, callee: ast.expr) -> None:
    """A function of another module may have parameters that Airflow fills; those of Python's library have none."""
    origin = context.origin(callee) or (callee.id if isinstance(callee, ast.Name) else "")
    package = origin.split(".", maxsplit=1)[0]
    if package in sys.stdlib_module_names - {"functools"} or hasattr(builtins, package):
        return
    context.leave_out(
        omission(
            callee,
            f"context of Airflow for {shown(callee)}",
            "the file does not say which parameters the function has",
            "pass what the function reads of the context, such as ds=run.ds",
        )
    )
