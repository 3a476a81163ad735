"""Log entries about faults that input causes: a burst of bad input fills no log."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import structlog

from tidegate.schemas.error import described

log = structlog.get_logger()

EVERY_S = 60.0


class FaultLog:
    """Of equal faults in `EVERY_S`, the first gets an entry with its traceback; the next entry says how many it stands for.

    Faults are equal if they have one type, and were raised at one place. `clock` is monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._logged_at: dict[object, float] = {}
        self._unlogged: dict[object, int] = {}

    def report(self, event: str, error: BaseException, **facts: Any) -> None:
        """Log a fault, unless an equal one was logged lately."""
        kind, now = (event, type(error), _place(error)), self._clock()
        if now - self._logged_at.get(kind, float("-inf")) < EVERY_S:
            self._unlogged[kind] = self._unlogged.get(kind, 0) + 1
            return
        self._logged_at[kind] = now
        log.error(event, error=described(error), not_logged_before=self._unlogged.pop(kind, 0), exc_info=error, **facts)


def _place(error: BaseException) -> tuple[str, int] | None:
    """The file and line where an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (trace.tb_frame.f_code.co_filename, trace.tb_lineno) if trace else None


faults = FaultLog()
