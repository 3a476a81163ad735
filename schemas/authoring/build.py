"""Running a DAG file: which DAGs it builds."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from tidegate.schemas.error import DagError

if TYPE_CHECKING:
    from tidegate.schemas.authoring.dag import Dag


class _Collection(NamedTuple):
    filename: str | None
    dags: "dict[str, Dag]"


_collection: ContextVar[_Collection | None] = ContextVar("dag_collection", default=None)


@contextmanager
def collect(filename: str | None = None) -> Iterator["Mapping[str, Dag]"]:
    """The DAGs that are built meanwhile, by id; only those that the top-level code of `filename` builds, if it is given."""
    collection = _Collection(filename, {})
    token = _collection.set(collection)
    try:
        yield collection.dags
    finally:
        _collection.reset(token)


def build(source: str, filename: str) -> "tuple[Dag, ...]":
    """Run a DAG file and return its DAGs, checked, in the order they were built.

    A DAG belongs to the file whose top-level code builds it: importing another DAG file does not take its DAGs along.
    Raises DagError, or whatever else the file raises.
    """
    code = compile(source, filename, "exec", dont_inherit=True)
    stem = filename.rpartition("/")[2].removesuffix(".py")
    with collect(filename) as dags:
        exec(code, {"__name__": f"dagfile.{stem}", "__file__": filename})  # noqa: S102 - what a DAG file is for
    for dag in dags.values():
        dag.spec()
    return tuple(dags.values())


def register(dag: "Dag") -> None:
    """Collect a DAG that was just built. Raises DagError where its id is taken."""
    collection = _collection.get()
    if collection is None or collection.filename not in (None, _building_file()):
        return
    if dag.dag_id in collection.dags:
        raise DagError(f"dag_id {dag.dag_id!r} is used twice in this file; each DAG needs a name of its own")
    collection.dags[dag.dag_id] = dag


def _building_file() -> str | None:
    """The file whose top-level code is running."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename
