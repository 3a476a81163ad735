"""Seeded faults of edits: what a user does to a file does more than it should."""

from collections.abc import Callable, Mapping

from tests.storms.replace import replace
from tidegate.handlers import dag_file_changed
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.queries.files import StoredDag


def each_parse_a_version() -> None:
    """A comment makes a version."""

    def never(stored: StoredDag | None, spec: DagSpec, digest: str) -> bool:
        return False

    replace(dag_file_changed, "is_unchanged", never)


EDIT_FAULTS: Mapping[str, Callable[[], None]] = {fault.__name__: fault for fault in (each_parse_a_version,)}
