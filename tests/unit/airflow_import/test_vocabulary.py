"""The import knows each option of DAGs and tasks: it writes the option, or its hints name the option as what to do instead."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.authoring_options import options_of_dags, options_of_tasks
from tests.unit.airflow_import.golden import FILES, translation
from tidegate.daemon.airflow_import import vocabulary

OF_TIDEGATE = {
    *("allow_backfills", "mode", "on_paused", "max_missed_runs_per_minute", "run_immediately"),
    *("on_timeout",),
}
"""Parameters without a keyword of Airflow, which no Airflow file could mean."""


def options() -> set[str]:
    return options_of_dags() | options_of_tasks()


def written() -> Iterator[str]:
    """The keywords, the keys of `default_args`, and the names of positional arguments, in all translations of example files."""
    yield from ("dag_id", "sql", "application", "argv")
    for path in FILES:
        for node in ast.walk(ast.parse(translation(path).text)):
            if isinstance(node, ast.Call):
                yield from (option.arg for option in node.keywords if option.arg)
            if isinstance(node, ast.Dict):
                yield from (str(key.value) for key in node.keys if isinstance(key, ast.Constant))


def hints() -> list[str]:
    tables = (vocabulary.OPTION_HINTS, vocabulary.OPERATOR_HINTS)
    return [" ".join(hint) for table in tables for hint in table.values()]


def named() -> set[str]:
    """The options that a hint names, as `resources=`."""
    return {option for hint in hints() for option in re.findall(r"\b(\w+)=", hint)}


def test_each_option_is_written_or_named() -> None:
    known = {*written(), *named()}

    assert options() - known - OF_TIDEGATE == set()
    assert options() >= OF_TIDEGATE


@pytest.mark.parametrize("option", sorted(options() & vocabulary.OPTION_HINTS.keys()))
def test_the_hint_for_an_option_of_the_same_name_names_the_option(option: str) -> None:
    assert f"{option}=" in " ".join(vocabulary.OPTION_HINTS[option])


@pytest.mark.parametrize("names", [vocabulary.SAME_TASK_OPTIONS | vocabulary.DURATION_OPTIONS | vocabulary.MOMENT_OPTIONS])
def test_options_with_the_name_of_airflow_exist(names: frozenset[str]) -> None:
    assert names <= options()
    assert options() >= vocabulary.SAME_DAG_OPTIONS
