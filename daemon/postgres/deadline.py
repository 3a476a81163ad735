"""The end of a transaction that takes too long: its connection is closed."""

import asyncio
from typing import TYPE_CHECKING

from tidegate.daemon.postgres.session_settings import STATEMENT_S

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected, Db

BUSY_S = 1.0
"""A timer that is later than this says that a decision occupied the process."""


class Deadline:
    """Closes the connection of a transaction after `left_s`.

    `server_works`: it did, and the server answered within the last `STATEMENT_S`, or this process itself had no time for it.
    """

    def __init__(self, connection: "Connected", left_s: float) -> None:
        loop = asyncio.get_running_loop()
        self.db: Db | None = None
        self.server_works = False
        self._before = 0
        self._was_busy = False
        self._connection = connection
        count_at, end_at = loop.time() + max(0.0, left_s - STATEMENT_S), loop.time() + left_s
        self._timers = loop.call_at(count_at, self._count, count_at), loop.call_at(end_at, self._end, end_at)

    def _count(self, due: float) -> None:
        self._before = self._statements()
        self._note_busy(due)

    def _end(self, due: float) -> None:
        self._note_busy(due)
        self.server_works = self._was_busy or self._statements() > self._before  # a statement follows an answer
        self._connection.terminate()

    def _note_busy(self, due: float) -> None:
        self._was_busy |= asyncio.get_running_loop().time() - due > BUSY_S

    def _statements(self) -> int:
        return self.db.statements if self.db else 0

    def cancel(self) -> None:
        for timer in self._timers:
            timer.cancel()
