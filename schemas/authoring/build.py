"""Running a DAG file."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, ModuleType

from tidegate.schemas.authoring.collection import collect_dags
from tidegate.schemas.authoring.dag import Dag
from tidegate.schemas.authoring.mistakes import notable


def build(source: str, filename: str) -> tuple[Dag, ...]:
    """Run a DAG file and return its DAGs, checked, in the order they were built.

    A DAG belongs to the file whose top-level code builds it: importing another DAG file does not add that file's DAGs.
    Raises DagError, and every exception that the file itself raises.
    """
    return build_code(compile(source, filename, "exec", dont_inherit=True), filename)


def build_code(code: CodeType, filename: str) -> tuple[Dag, ...]:
    """As `build`, of a file that is compiled already."""
    stem = filename.rpartition("/")[2].removesuffix(".py")
    with collect_dags(filename) as dags, _module(f"dagfile.{stem}", filename) as module:
        exec(code, module.__dict__)  # noqa: S102 - what a DAG file is for
    for dag in dags.values():
        with notable():
            dag.spec()
    return tuple(dags.values())


@contextmanager
def _module(name: str, filename: str) -> Iterator[ModuleType]:
    """The module of a DAG file, known by its name meanwhile: dataclasses look for the names of their annotations there.

    Afterwards it is not: Spark sends executors the functions of a known module as a name alone, which they cannot import.
    """
    before, module = sys.modules.get(name), ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module
    try:
        yield module
    finally:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before
