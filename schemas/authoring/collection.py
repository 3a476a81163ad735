"""The DAGs of a file, as its code builds them."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from tidegate.schemas.error import DagError


class _Collection(NamedTuple):
    filename: str | None
    dags: dict[str, Any]


_collection: ContextVar[_Collection | None] = ContextVar("dag_collection", default=None)


@contextmanager
def collect_dags(filename: str | None = None) -> Iterator[Mapping[str, Any]]:
    """The DAGs built inside the block, by id; with a `filename`, only the DAGs that its top-level code builds."""
    collection = _Collection(filename, {})
    token = _collection.set(collection)
    try:
        yield collection.dags
    finally:
        _collection.reset(token)


def collect(dag_id: str, dag: object) -> None:
    """Raises DagError for an id that the file has used before."""
    collection = _collection.get()
    if collection is None or collection.filename not in (None, _building_file()):
        return
    if dag_id in collection.dags:
        raise DagError(f"dag_id {dag_id!r} is used twice in this file; each DAG needs a name of its own")
    collection.dags[dag_id] = dag


def _building_file() -> str | None:
    """The file whose top-level code is running."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename
