"""Applications as tasks: `dag.submit`, with the settings of Spark that the keywords of SparkSubmitOperator stand for."""

import ast
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from tidegate.daemon.airflow_import import templates, vocabulary
from tidegate.daemon.airflow_import.arguments import Convert, Made, Options, has_no_effect, own_options, take, template
from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.layout import constant, items, keyword, name
from tidegate.daemon.airflow_import.report import left_out, omission, shown
from tidegate.daemon.airflow_import.texts import Pair, as_text, pairs_of, text_pair, text_values, with_literals
from tidegate.daemon.spark.runner.application_files import LISTS, is_address, is_package
from tidegate.daemon.spark.runner.submit import conf_problem
from tidegate.schemas.text import is_template

_PATH = re.compile(r"(?![~/{])(?!(.*/)?\.\./)[^:#*?\[]+")
"""A path below the DAG folder; Spark alone knows fragments and patterns."""


def application_task(context: Context, class_name: str, options: Options) -> Made:
    """The arguments of `dag.submit`. Raises LeftOutError without an application."""
    application, rest = take([option for option in options if not has_no_effect(option)], "application")
    arguments, rest = take(rest, "application_args")
    conf, rest = take(rest, "conf")
    if application is None:
        raise left_out(name(class_name), "it has no application", "write the path of the application below the DAG folder")
    lists = [option for option in rest if _entries(context, option)]
    settings = _conf(context, conf, [option for option in rest if option.arg in vocabulary.SPARK_CONF and option not in lists])
    common = [option for option in rest if option.arg not in vocabulary.SPARK_CONF]
    own, common = own_options(context, [*lists, *common], class_name, _OF_APPLICATIONS)
    args = [] if arguments is None else [keyword("args", _texts(context, arguments))]
    conf_of_task = [keyword("conf", settings)] if settings.keys else []
    return "submit", [_application(context, application)], [*args, *conf_of_task, *own], common


def _entries(context: Context, option: ast.keyword) -> list[str]:
    """The entries of a list of files or packages, if `dag.submit` takes each; else it becomes a setting, which takes any path."""
    value = context.facts.constants.get(option.value.id) if isinstance(option.value, ast.Name) else option.value
    if option.arg not in LISTS or not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        return []
    if any("," in expression for expression in templates.expressions(value.value)):
        return []
    entries = [entry.strip() for entry in value.value.split(",") if entry.strip()]
    return entries if all(_is_entry(option.arg, entry) for entry in entries) else []


def _is_entry(what: str, entry: str) -> bool:
    if what == "packages":
        return is_package(entry)
    return is_address(entry) or _PATH.fullmatch(entry) is not None


def _as_list(what: str) -> Convert:
    def convert_list(context: Context, node: ast.expr) -> ast.expr:
        entries = _entries(context, keyword(what, node))
        return items(*(template(context, ast.copy_location(constant(entry), node)) for entry in entries))

    return convert_list


_OF_APPLICATIONS: Mapping[str, tuple[str, Convert]] = {
    **{what: (what, _as_list(what)) for what in LISTS},
    "env_vars": ("env", text_values),
}


def _application(context: Context, node: ast.expr) -> ast.expr:
    """The path of the application; one outside of the DAG folder is reported, and its name kept."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return context.translate(node)
    if is_template(node.value):
        raise left_out(node, "the path of an application is no template", "write the path")
    if is_elsewhere(node.value):
        file = PurePosixPath(node.value).name
        context.leave_out(
            omission(node, f"application {node.value}", "an application lies below the DAG folder", f"copy it there as {file}")
        )
        return constant(file)
    return node


def is_elsewhere(path: str) -> bool:
    """Whether a path is not one below the DAG folder."""
    return "://" in path or path.startswith(("/", "..", "~"))


def _conf(context: Context, conf: ast.expr | None, options: Options) -> ast.Dict:
    """The configuration of Spark, with the keywords that stand for a setting; without the settings that no task may set."""
    settings: list[Pair] = []
    conf = _literal(context, conf)
    if isinstance(conf, ast.Dict):
        settings += [text_pair(context, key, value) for key, value in pairs_of(context, conf) if _may_set(context, key)]
    elif conf is not None:
        settings.append((None, context.translate(conf)))
    for option in options:
        key = ast.copy_location(constant(vocabulary.SPARK_CONF[option.arg or ""]), option.value)
        if _may_set(context, key, f"{option.arg}="):
            settings.append((key, as_text(context, option.value)))
    return ast.Dict(keys=[key for key, _ in settings], values=[value for _, value in settings])


def _may_set(context: Context, key: ast.expr | None, what: str = "") -> bool:
    """Whether a task may set the setting. One that is refused is left out."""
    problem = _refusal(key)
    if problem is not None and key is not None:
        instead = vocabulary.REFUSED_CONF.get(str(ast.literal_eval(key)), vocabulary.REFUSED)
        context.leave_out(omission(key, f"{what or shown(key)} of SparkSubmitOperator", problem, instead))
    return problem is None


def _refusal(key: ast.expr | None) -> str | None:
    return conf_problem(key.value, "") if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _literal(context: Context, node: ast.expr | None) -> ast.expr | None:
    """The dict that a variable holds, if a value of it has to be written as text, or a task may not set all of its settings."""
    held = context.facts.constants.get(node.id) if isinstance(node, ast.Name) else None
    return held if isinstance(held, ast.Dict) and any(map(_refusal, held.keys)) else with_literals(context, node)


def _texts(context: Context, node: ast.expr) -> ast.expr:
    if isinstance(node, ast.List | ast.Tuple):
        return items(*(as_text(context, element) for element in node.elts))
    return context.translate(node)
