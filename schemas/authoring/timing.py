"""When a condition over datasets counts, as DAG authors write it: `Timed(a & b, within=timedelta(hours=1))`."""

from collections.abc import Sequence
from datetime import time, timedelta
from typing import Literal

import msgspec

from tidegate.schemas.authoring.dataset import Expression
from tidegate.schemas.authoring.duration import limit
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, InputDeadlineSpec, NOf, Timing
from tidegate.schemas.error import DagError
from tidegate.schemas.timetable.wallclock import zone

Fallback = Literal["run_anyway", "skip", "alert"]
FALLBACKS = ("run_anyway", "skip", "alert")


class InputDeadline:
    """By when a condition is to hold: `after` so long from the arrival of the first event that waits, or daily `at` a time.

    If it does not hold by then, `fallback` says what comes: `run_anyway`, a run of what has arrived; `skip`, no run, and what has
    arrived is discarded; `alert`, a record of it, and everything goes on waiting. `at` is on the clocks of the DAG's zone, and
    passes unnoticed where a run was made since it was last that time.
    """

    def __init__(self, *, after: timedelta | None = None, at: time | None = None, fallback: Fallback = "run_anyway") -> None:
        where = "InputDeadline"
        if (after is None) == (at is None):
            raise DagError(f"{where}: write either after=timedelta(hours=1) or at=time(9, 0)")
        if at is not None and (not isinstance(at, time) or at.tzinfo is not None):
            raise DagError(f"{where}: at must be a time without a zone like time(9, 0), not {at!r:.100}; it is in the DAG's")
        if fallback not in FALLBACKS:
            raise DagError(f"{where}: fallback is one of {', '.join(map(repr, FALLBACKS))}, not {fallback!r:.100}")
        self.spec = InputDeadlineSpec(after_s=limit(where, "after", after), at=at, fallback=fallback)


class Timed:
    """A condition, and when it counts.

    `within`: the inputs of a run happened within this time of each other; older ones are superseded. `quiet_for`: a run waits
    until no event has come for so long, but not longer than `max_wait` once the inputs are there. `min_interval`: two runs of the
    condition start so long after each other at least. `expire_after`: an event that still waits after so long counts no longer,
    for all inputs that do not say it themselves. `deadline`: by when the inputs are to be there, and what comes if they are not.
    """

    def __init__(
        self,
        datasets: Expression | Sequence[Expression],
        *,
        within: timedelta | None = None,
        quiet_for: timedelta | None = None,
        max_wait: timedelta | None = None,
        min_interval: timedelta | None = None,
        expire_after: timedelta | None = None,
        deadline: InputDeadline | None = None,
    ) -> None:
        if max_wait is not None and quiet_for is None:
            raise DagError("Timed: max_wait bounds how long a run waits for quiet; write quiet_for=timedelta(…) beside it")
        if deadline is not None and not isinstance(deadline, InputDeadline):
            raise DagError(f"Timed: deadline is an InputDeadline(after=…) or InputDeadline(at=…), not {deadline!r:.100}")
        self.datasets = datasets
        self.expire_after_s = limit("Timed", "expire_after", expire_after)
        self.timing = Timing(
            within_s=limit("Timed", "within", within),
            quiet_for_s=limit("Timed", "quiet_for", quiet_for),
            max_wait_s=limit("Timed", "max_wait", max_wait),
            min_interval_s=limit("Timed", "min_interval", min_interval),
            deadline=deadline.spec if deadline else None,
        )


def expiring(condition: Condition, seconds: float | None) -> Condition:
    """The condition with inputs that expire after so long where they do not say it themselves."""
    if seconds is None:
        return condition
    if isinstance(condition, AllOf | AnyOf | NOf):
        return msgspec.structs.replace(condition, of=tuple(expiring(operand, seconds) for operand in condition.of))
    return condition if condition.expire_after_s else msgspec.structs.replace(condition, expire_after_s=seconds)


def zoned(where: str, timing: Timing, timezone: str) -> Timing:
    """The timing on the clocks of a zone. Raises DagError."""
    if timing.deadline is None or timing.deadline.at is None:
        return timing
    try:
        zone(timezone)
    except ValueError as error:
        raise DagError(f"{where}: {error}") from None
    return msgspec.structs.replace(timing, deadline=msgspec.structs.replace(timing.deadline, timezone=timezone))
