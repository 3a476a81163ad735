"""`Variable.get` of Airflow: a parameter of the run where a run is known, and its default where DAG files are parsed."""

import ast

from tidegate.daemon.airflow_import.context import Context, Held
from tidegate.daemon.airflow_import.layout import attribute, call, constant, name
from tidegate.daemon.airflow_import.report import left_out, omission
from tidegate.daemon.airflow_import.vocabulary import OPERATOR_HINTS, parameter_hint

_OF_VALUES = (
    *(ast.Constant, ast.JoinedStr, ast.FormattedValue, ast.Name, ast.Subscript, ast.BinOp, ast.Add, ast.Attribute, ast.Call),
    *(ast.keyword, ast.expr_context, ast.Slice),
)


def is_variable(context: Context, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and context.airflow_name(node.func) == "Variable.get"


def reads_variables(context: Context, node: ast.expr) -> bool:
    """Whether a value is made of variables of Airflow, texts and their parts alone."""
    parts = list(ast.walk(node))
    read = [part for part in parts if is_variable(context, part) or _is_held(context, part)]
    calls = [part for part in parts if isinstance(part, ast.Call) and not is_variable(context, part)]
    plain = all(isinstance(part.func, ast.Attribute) and part.func.attr == "get" for part in calls)
    return bool(read) and plain and all(isinstance(part, _OF_VALUES) for part in parts)


def begins_with_variable(context: Context, node: ast.expr) -> bool:
    """Whether an expression is a variable of Airflow, or a part of one, such as `conf["host"]`."""
    current: ast.expr = node
    while not (is_variable(context, current) or _is_held(context, current)):
        match current:
            case ast.Subscript(value=value) | ast.Call(func=ast.Attribute(value=value, attr="get")):
                current = value
            case _:
                return False
    held = context.bindings.get(current.id) if isinstance(current, ast.Name) else None
    return begins_with_variable(context, held.node) if isinstance(held, Held) else True


def parameter(context: Context, node: ast.Call) -> ast.expr:
    """A variable in a function: `run.params["key"]`. Where no run is known, its default. Raises LeftOutError without one."""
    key, default = _key(node)
    if context.mode == "function":
        _list_parameter(context, node, key)
        params = attribute(name("run"), "params")
        if default is None:
            return ast.Subscript(value=params, slice=constant(key), ctx=ast.Load())
        return call(attribute(params, "get"), [constant(key), default])
    if default is None:
        raise left_out(node, *OPERATOR_HINTS["Variable"])
    why = "DAG files are parsed without variables, so its default is written"
    context.leave_out(omission(node, f"Variable {key}", why, "write its value"))
    return context.translate(default)


def as_template(context: Context, node: ast.expr) -> ast.Constant:
    """A variable, or a part of one, in a text: `{{ params.key }}`."""
    return constant(f"{{{{ {_in_template(context, node)} }}}}")


def secret_name(context: Context, node: ast.expr) -> str | None:
    """The key of a variable that is the whole value, without a default."""
    held = context.bindings.get(node.id) if isinstance(node, ast.Name) else None
    made = held.node if isinstance(held, Held) else node
    if (
        not isinstance(made, ast.Call)
        or not is_variable(context, made)
        or any(option.arg == "deserialize_json" for option in made.keywords)
    ):
        return None
    key, default = _key(made)
    if default is not None:
        return None
    why = "env= has it as a secret of the host that runs the task"
    context.leave_out(omission(node, f"Variable {key}", why, f"write its value to the file {key} in TIDEGATE_SECRETS_DIR"))
    return key


def _in_template(context: Context, node: ast.expr) -> str:
    held = context.bindings.get(node.id) if isinstance(node, ast.Name) else None
    match node:
        case ast.Name() if isinstance(held, Held):
            return _in_template(context, held.node)
        case ast.Call() if is_variable(context, node):
            key, default = _key(node)
            _list_parameter(context, node, key)
            return f"params.get({key!r}, {ast.unparse(default)})" if default is not None else f"params[{key!r}]"
        case ast.Subscript(value=value, slice=ast.Constant(value=part)):
            return f"{_in_template(context, value)}[{part!r}]"
        case ast.Call(func=ast.Attribute(value=value, attr="get"), args=args) if all(
            isinstance(arg, ast.Constant) for arg in args
        ):
            return f"{_in_template(context, value)}.get({', '.join(map(ast.unparse, args))})"
        case _:
            raise left_out(node, *OPERATOR_HINTS["Variable"])


def _key(node: ast.Call) -> tuple[str, ast.expr | None]:
    """The key, and the default if it is a literal. Raises LeftOutError for a key that is none."""
    named = {option.arg: option.value for option in node.keywords}
    given = node.args[0] if node.args else named.get("key")
    default = node.args[1] if len(node.args) > 1 else named.get("default_var", named.get("default"))
    if not isinstance(given, ast.Constant) or not isinstance(given.value, str):
        raise left_out(node, "the key of a variable is not in the file", "use params of the DAG, or env= of the task")
    if default is not None and not isinstance(default, ast.Constant | ast.List | ast.Dict):
        raise left_out(node, *OPERATOR_HINTS["Variable"])
    return given.value, default


def _list_parameter(context: Context, node: ast.expr, key: str) -> None:
    context.leave_out(omission(node, f"Variable {key}", *parameter_hint(key)))


def _is_held(context: Context, node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(context.bindings.get(node.id), Held)
