"""Calls that make DAGs, datasets and parameters."""

import ast

from tidegate.daemon.airflow_import.arguments import convert, take
from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.dags import dag_call
from tidegate.daemon.airflow_import.layout import call, keyword
from tidegate.daemon.airflow_import.report import left_out
from tidegate.daemon.airflow_import.schedules import joined_datasets
from tidegate.daemon.airflow_import.unsupported import leave_out_arguments, leave_out_option, leave_out_positional


def other_call(context: Context, node: ast.Call, class_name: str, variable: str) -> ast.expr | None:
    """Calls of datasets, parameters and DAGs; None for those without an equivalent."""
    if class_name in ("Dataset", "Asset"):
        return _dataset(context, node, class_name)
    if class_name == "Param":
        return _param(context, node)
    if class_name == "DAG":
        dag_variable = variable or context.fresh("dag")
        made, dag = dag_call(context, node, dag_variable)
        context.dags[dag_variable] = dag
        return made
    if class_name == "XComArg" and node.args:
        leave_out_arguments(context, node, class_name, after=1)
        return context.translate(node.args[0])
    return joined_datasets(context, node, class_name)


def _dataset(context: Context, node: ast.Call, class_name: str) -> ast.expr:
    """A dataset; one without a URI has its name as URI, as in Airflow."""
    options = list(node.keywords)
    positional = [
        keyword(option, value)
        for option, value in zip(("uri",) if len(node.args) == 1 else ("name", "uri"), node.args, strict=False)
    ]
    leave_out_positional(context, node.args[2:], class_name)
    uri, options = take([*positional, *options], "uri")
    named, options = take(options, "name")
    uri = uri if uri is not None else named
    if uri is None or (isinstance(uri, ast.Constant) and not _is_uri(uri.value)):
        raise left_out(node, "a dataset needs a URI of printable ASCII without spaces", 'write Dataset("lake://name")')
    kept = [keyword("name", named)] if named is not None and named is not uri else []
    for option in options:
        converted = convert(context, option, class_name, ("extra", Context.translate) if option.arg == "extra" else None)
        kept += [converted] if converted is not None else []
    return call(
        context.need("tidegate", "Dataset"),
        [context.translate(uri)],
        [ast.keyword(arg=option.arg, value=context.translate(option.value)) for option in kept],
    )


def _is_uri(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 2048 and all("!" <= character <= "~" for character in value)


def _param(context: Context, node: ast.Call) -> ast.expr:
    args = [context.translate(arg) for arg in node.args[:1]]
    leave_out_positional(context, node.args[1:], "Param")
    schema, options = take(node.keywords, "schema")
    default, options = take(options, "default")
    if schema is not None:
        leave_out_option(context, keyword("schema", schema), "Param")
    given = [context.translate(default)] if default is not None else args
    return call(
        context.need("tidegate", "Param"),
        given,
        [ast.keyword(arg=option.arg, value=context.translate(option.value)) for option in options],
    )
