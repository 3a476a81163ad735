"""Rows of Postgres that never change, in the memory of a process."""

from datetime import datetime
from typing import TypeVar

from tidegate.schemas.dag import DagFile
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries.low_watermarks import LowWatermarks

MAX_DATASETS = 20_000

MAX_SPEC_BYTES = 64 << 20
"""JSON of all remembered graphs. A graph takes about ten times its JSON in memory."""

MAX_FILE_BYTES = 32 << 20

Key = TypeVar("Key")
Value = TypeVar("Value")


class Bounded(dict[Key, Value]):
    """Values up to a total weight, stored by `remember`. A new value is always stored, and replaces the oldest ones."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._weights: dict[Key, int] = {}
        self._total = 0

    def remember(self, key: Key, value: Value, weight: int = 1) -> None:
        self._forget(key)
        while self._weights and self._total + weight > self._most:
            self._forget(next(iter(self._weights)))
        self[key] = value
        self._weights[key] = weight
        self._total += weight

    def _forget(self, key: Key) -> None:
        self.pop(key, None)
        self._total -= self._weights.pop(key, 0)


class Memory:
    """Committed rows that never change, kept by one process: version id → graph and file, dataset URI → id.

    `installation` is the id of the database and `secret` what its daemons share, empty while they are not known.
    `lease_ctids` and `low_watermarks` are hints: the ctid that the row of a lease had last, by key, and the event id from which
    on the pending queue of a DAG is read. `ignored_fields`: when a field of the events of a dataset was last noted.
    """

    def __init__(self) -> None:
        self.graphs: Bounded[int, Graph] = Bounded(MAX_SPEC_BYTES)
        self.files: Bounded[int, DagFile] = Bounded(MAX_FILE_BYTES)
        self.dataset_ids: Bounded[str, int] = Bounded(MAX_DATASETS)
        self.ignored_fields: Bounded[tuple[int, str], datetime] = Bounded(MAX_DATASETS)
        self.installation = ""
        self.secret = b""
        self.lease_ctids: dict[str, str] = {}
        self.low_watermarks = LowWatermarks()
