"""What Airflow 3.3.2 reached on 2 cores with PostgreSQL, fsync on; default settings, and tuned ones."""

from typing import NamedTuple


class Peer(NamedTuple):
    """A figure at default settings and tuned; None where it was not measured."""

    default: float | None
    tuned: float | None


CREATED_MS = Peer(525, 54)
CREATED_P95_MS = Peer(953, 80)
FAN_OUT_RUNS_PER_S = Peer(8.8, 78)
FAN_IN_S = Peer(12.4, 2.0)
"""After the last event."""

INGEST_PER_S = Peer(424, 661)
TASKS_PER_S = Peer(151, 377)
CHAIN_PER_S = Peer(None, 117)
DUE_MS = Peer(7700, 4800)
DUE_P95_MS = Peer(14_200, 8500)
FILES_S = Peer(43, 45)
"""1,000 files of three tasks."""

CHANGED_MS = Peer(8500, 510)
NONE = Peer(None, None)
