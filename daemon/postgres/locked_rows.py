"""Rows that other sessions hold, such as a console that ran `SELECT … FOR UPDATE`: one row must not stop what needs others.

The first transaction of a daemon that meets such a row waits for the lock timeout of its session. For a while from then on,
transactions for many leave such rows out where they can, and hardly wait for them elsewhere.
"""

from collections.abc import Callable
from time import monotonic

from tidegate.daemon.postgres.deferred_log import log
from tidegate.schemas.error import POSTGRES, LockedError

LASTS_S = 10.0
"""From the last such row on."""

WAIT_MS = 100
"""More than transactions of ours usually hold a row."""

SHORT_WAIT = f"SET LOCAL lock_timeout = {WAIT_MS}"


class LockedRows:
    """Whether a process met a row lately that another session holds. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until = float("-inf")

    @property
    def are_met(self) -> bool:
        return self._clock() < self._until

    def meet(self, error: str, *, for_many: bool, is_last: bool = False) -> None:
        """Such a row was met now, by a transaction `for_many` or another one. Raises LockedError after the last try."""
        if for_many:
            if not self.are_met:
                log.warning("rows_locked", hint="`tidegate doctor` names the sessions that hold them")
            self._until = self._clock() + LASTS_S
        if is_last:
            raise LockedError(f"another session holds a row, and `tidegate doctor` names it: {error}", server=POSTGRES)
