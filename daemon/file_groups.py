"""Which changed DAG files a plan applies together: files of the same DAGs, and no more at once than locks may last."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tidegate.schemas.dag import ParsedFile
from tidegate.schemas.queries.files import StoredDag

BATCH = 50
"""The files of a transaction."""


def batches(changed: Sequence[ParsedFile], stored: Mapping[str, StoredDag]) -> Iterator[Sequence[ParsedFile]]:
    """The files in their order, at most `BATCH` at once, so that locks are short. Files that share a DAG are together."""
    batch: list[ParsedFile] = []
    for group in groups_of(changed, stored):
        if batch and len(batch) + len(group) > BATCH:
            yield batch
            batch = []
        batch += group
    if batch:
        yield batch


class _Group(NamedTuple):
    """Files by their place in the order, and the names of these files and of their DAGs."""

    files: Mapping[int, ParsedFile]
    names: frozenset[str]


def groups_of(changed: Sequence[ParsedFile], stored: Mapping[str, StoredDag]) -> Iterator[Sequence[ParsedFile]]:
    """The files that share DAGs, in their order."""
    by_name: dict[str, _Group] = {}
    for place, file in enumerate(changed):
        group = _Group({place: file}, _names(file, stored))
        for other in {id(found): found for name in group.names if (found := by_name.get(name))}.values():
            group = _Group({**other.files, **group.files}, other.names | group.names)
        by_name |= dict.fromkeys(group.names, group)
    for group in {id(group): group for group in by_name.values()}.values():
        yield [file for _, file in sorted(group.files.items())]


def _names(file: ParsedFile, stored: Mapping[str, StoredDag]) -> frozenset[str]:
    """The names of the file, of its DAGs and of the files that have these now; a slash tells files from DAGs."""
    dag_ids = [spec.dag_id for spec in file.dags]
    return frozenset({f"/{file.path}", *dag_ids, *(f"/{stored[dag_id].path}" for dag_id in dag_ids if dag_id in stored)})
