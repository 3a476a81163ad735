"""Log entries about faults that occur many times: neither a burst of bad input nor a fault that stays fills the log.

There is one class for each way to recur: `FaultLog` for input, `RepeatedFaults` for components that are tried until they work,
and `LoggedStates` for states that last.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from time import monotonic
from typing import Any

import structlog

from tidegate.schemas.error import described

log = structlog.get_logger()

EVERY_S = 60.0
MOST_COMPONENTS = 10_000


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


class RepeatedFaults:
    """The faults of components that are tried until they work. A fault gets an entry if its text is not that of the one before.

    `event` names the entries. Of more than `MOST_COMPONENTS` that fail, the one that failed first is forgotten.
    """

    def __init__(self, event: str) -> None:
        self._event = event
        self._logged: OrderedDict[Hashable, str] = OrderedDict()

    def report(self, component: Hashable, error: BaseException, **facts: Any) -> None:
        """Log a fault with its traceback, unless the last fault of its component has the same text."""
        reason = described(error)
        if self._logged.get(component) != reason:
            log.error(self._event, error=reason, exc_info=error, **facts)
        self._logged[component] = reason
        if len(self._logged) > MOST_COMPONENTS:
            self._logged.popitem(last=False)

    def end(self, component: Hashable) -> None:
        """The component works: its next fault gets an entry."""
        self._logged.pop(component, None)


class LoggedStates:
    """States that last, such as a missing pool or an unreadable folder: the caller logs each of them when it begins."""

    def __init__(self) -> None:
        self._holding: dict[str, frozenset[str]] = {}

    def begun(self, kind: str, holding: Iterable[str]) -> list[str]:
        """The states of a kind that hold now, and did not at the last call."""
        names = list(holding)
        before, self._holding[kind] = self._holding.get(kind, frozenset()), frozenset(names)
        return [name for name in names if name not in before]


faults = FaultLog()
