"""The progress of a long deletion."""

import time
from collections.abc import Mapping

from tidegate.daemon.cli.pages import output
from tidegate.schemas.message import HistoryPart
from tidegate.schemas.text import counted

SAY_EVERY_S = 1.0

NAMES: Mapping[HistoryPart, str] = {
    HistoryPart.RUNS: "runs",
    HistoryPart.CONSUMED: "consumed events",
    HistoryPart.DISCARDED: "discarded events",
    HistoryPart.PENDING: "pending events",
    HistoryPart.DATES: "dates of backfills",
    HistoryPart.VERSIONS: "versions",
}


class Portions:
    """Counts the portions of the history of a DAG that are deleted, and says on stderr once a second how far it is."""

    def __init__(self, dag_id: str) -> None:
        self._dag_id, self._count, self._said_at = dag_id, 0, time.monotonic()

    def add(self, part: HistoryPart) -> None:
        self._count += 1
        if time.monotonic() - self._said_at >= SAY_EVERY_S:
            self._said_at = time.monotonic()
            output.say(f"deleting the {NAMES[part]} of {self._dag_id}: {counted(self._count, 'portion', 'portions')} deleted")
