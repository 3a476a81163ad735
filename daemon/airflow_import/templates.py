"""Jinja templates: names of Airflow's context in the words of Tidegate."""

import re
from collections.abc import Iterator
from datetime import datetime

from jinja2 import Environment, TemplateError, meta, nodes

from tidegate.daemon.spark.runner.macros import MACROS
from tidegate.daemon.spark.runner.template import NAMES

_ID = r"""['"](?P<id>[\w.-]+)['"]"""
_PULL = r"(?:ti|task_instance)\.xcom_pull\(\s*(?:task_ids\s*=\s*)?"
_DATES = "logical_date|data_interval_start|data_interval_end"
_WORDS = (
    (rf"{_PULL}{_ID}\s*\)", r"results['\g<id>']"),
    (rf"{_PULL}\[\s*{_ID}\s*\]\s*\)", r"[results['\g<id>']]"),
    (r"\bdag\.dag_id\b", "dag_id"),
    (r"\btask\.task_id\b", "task_id"),
    (r"\bdag_run\.run_id\b", "run_id"),
    (r"\bdag_run\.logical_date\b", "logical_date"),
    (r"\bdag_run\.conf\b", "params"),
    (r"\b(?:ti|task_instance)\.try_number\b", "try_number"),
    (r"\b(?:ti|task_instance)\.map_index\b", "map_index"),
    (r"\bexecution_date\b", "logical_date"),
    (rf"\b({_DATES})\s*\|\s*ds_nodash\b", r"\1.strftime('%Y%m%d')"),
    (rf"\b({_DATES})\s*\|\s*ds\b", r"\1.strftime('%Y-%m-%d')"),
    (rf"\b({_DATES})\s*\|\s*ts_nodash\b", r"\1.strftime('%Y%m%dT%H%M%S')"),
    (rf"\b({_DATES})\s*\|\s*ts\b", r"\1.isoformat()"),
    (rf"\b({_DATES})\.to_date_string\(\)", r"\1.strftime('%Y-%m-%d')"),
    (rf"\b({_DATES})\.to_datetime_string\(\)", r"\1.strftime('%Y-%m-%d %H:%M:%S')"),
    (rf"\b({_DATES})\.to_iso8601_string\(\)", r"\1.isoformat()"),
    (r"\bvar\.(?:value|json)\.get\(", "params.get("),
    (r"\bvar\.(?:value|json)\.", "params."),
    (r"\bvar\.(?:value|json)\[", "params["),
    (r"\btriggering_asset_events\b", "triggering_dataset_events"),
)
_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_ONLY_NAME = re.compile(r"\s*\{\{\s*(\w+)\s*\}\}\s*")


def translated(text: str) -> str:
    """The template with the names of Tidegate where there is one."""
    return _EXPRESSION.sub(lambda expression: _in_words(expression.group()), text)


_VARIABLE = re.compile(r"""\bvar\.(?:value|json)(?:\.get\(\s*['"]([^'"]+)|\.(\w+)|\[\s*['"]([^'"]+))""")


def variables(text: str) -> list[str]:
    """The variables of Airflow that a template reads, which become parameters of the run."""
    found = (match for expression in expressions(text) for match in _VARIABLE.finditer(expression))
    return [match[1] or match[2] or match[3] for match in found]


def problems(text: str) -> Iterator[str]:
    """What a translated template uses that Tidegate does not know."""
    environment = Environment()  # noqa: S701 - the template is read and never rendered
    try:
        tree = environment.parse(text)
        filters = {found.name for found in tree.find_all(nodes.Filter)} - environment.filters.keys()
        # The search for names compiles the template, which fails for an unknown filter.
        environment.filters.update(dict.fromkeys(filters, str))
        names = meta.find_undeclared_variables(tree) - set(NAMES)
    except TemplateError as error:
        yield f"it is not a template: {error.message}"
        return
    macros = {found.attr for found in tree.find_all(nodes.Getattr) if found.node == nodes.Name("macros", "load")} - {*MACROS}
    yield from (f"{name} is unknown in templates" for name in sorted({*names, *(f"macros.{name}" for name in macros)}))
    yield from (f"a date has no {name}" for name in sorted(_of_pendulum(tree)))
    yield from (f"the filter {name} is unknown in templates" for name in sorted(filters))


def _of_pendulum(tree: nodes.Template) -> set[str]:
    """What a template reads of a date that a datetime of Python does not have."""
    read = (found for found in tree.find_all(nodes.Getattr) if isinstance(found.node, nodes.Name))
    dates = {*_DATES.split("|"), "run_after"}
    return {
        found.attr
        for found in read
        if isinstance(found.node, nodes.Name) and found.node.name in dates and found.attr not in dir(datetime)
    }


def expressions(text: str) -> list[str]:
    """What Jinja evaluates of a text."""
    return _EXPRESSION.findall(text)


def only_name(text: str) -> str | None:
    """The name if the template is one name and nothing else."""
    match = _ONLY_NAME.fullmatch(text)
    return match[1] if match else None


def _in_words(expression: str) -> str:
    for pattern, word in _WORDS:
        expression = re.sub(pattern, word, expression)
    return expression
