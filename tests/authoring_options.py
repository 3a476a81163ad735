"""The options that a DAG file may give: to `Dag`, to all kinds of tasks, and to some."""

import inspect

from tidegate.schemas.authoring.dag import Dag
from tidegate.schemas.authoring.options import SparkProgramOptions

_NO_OPTIONS = {"self", "function", "options", "unknown"}


def options_of_dags() -> set[str]:
    return set(inspect.signature(Dag.__init__).parameters) - _NO_OPTIONS


def options_of_tasks() -> set[str]:
    """The parameters of the methods that make tasks, and the options of all tasks or of some kinds."""
    methods = (Dag.task, Dag.sql, Dag.submit, Dag.command, Dag.empty)
    of_methods = {name for method in methods for name in inspect.signature(method).parameters}
    return (of_methods | set(SparkProgramOptions.__annotations__)) - _NO_OPTIONS
