"""The timing of a condition over datasets: `Timed(a & b, within=timedelta(hours=1))`."""

from collections.abc import Sequence
from datetime import time, timedelta
from typing import Literal

import msgspec

from tidegate.schemas.authoring.arguments import limit_seconds, time_zone
from tidegate.schemas.authoring.dataset import Expression
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, InputDeadlineSpec, NOf, Timing
from tidegate.schemas.error import DagError

Fallback = Literal["run_anyway", "skip", "alert"]
FALLBACKS = ("run_anyway", "skip", "alert")


class InputDeadline:
    """The time by which a condition over datasets must be met. Exactly one of `after` and `at`.

    `after`: a duration above 0 and up to ten years, from the arrival of the first pending event.
    `at`: a time of day in the DAG's time zone, every day; any run since the previous day's `at` meets it.
    `fallback`: what happens to the pending events when the condition is not met by then. `run_anyway` (default) creates a run
    of them; `skip` discards them; `alert` calls the DAG's `on_deadline` and keeps them pending.
    Raises DagError otherwise.
    """

    def __init__(self, *, after: timedelta | None = None, at: time | None = None, fallback: Fallback = "run_anyway") -> None:
        where = "InputDeadline"
        if (after is None) == (at is None):
            raise DagError(f"{where}: write either after=timedelta(hours=1) or at=time(9, 0)")
        if at is not None and (not isinstance(at, time) or at.tzinfo is not None):
            raise DagError(f"{where}: at must be a time without a zone like time(9, 0), not {at!r:.100}; it is in the DAG's")
        if fallback not in FALLBACKS:
            raise DagError(f"{where}: fallback is one of {', '.join(map(repr, FALLBACKS))}, not {fallback!r:.100}")
        self.spec = InputDeadlineSpec(after_s=limit_seconds(where, "after", after), at=at, fallback=fallback)


class Timed:
    """A condition over datasets, and when it creates a run once it is met. Durations are above 0 and up to ten years.

    `datasets`: a dataset, a condition, or a list, which means all of them.
    `within`: the inputs of a run must have happened within this time of each other; older events are discarded as superseded.
    `quiet_for`: debounce; the run waits until no event has arrived for this long, at most `max_wait` after the condition was met.
    `min_interval`: rate limit; the shortest time between the creation of two runs of the condition.
    `expire_after`: a pending event older than this no longer counts; for inputs without an `expire_after` of their own.
    `deadline`: an `InputDeadline`.
    All are None by default: the run is created as soon as the condition is met. Raises DagError for invalid values.
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
        self.expire_after_s = limit_seconds("Timed", "expire_after", expire_after)
        self.timing = Timing(
            within_s=limit_seconds("Timed", "within", within),
            quiet_for_s=limit_seconds("Timed", "quiet_for", quiet_for),
            max_wait_s=limit_seconds("Timed", "max_wait", max_wait),
            min_interval_s=limit_seconds("Timed", "min_interval", min_interval),
            deadline=deadline.spec if deadline else None,
        )


def with_expiry(condition: Condition, seconds: float | None) -> Condition:
    """The condition with `expire_after_s` on each input that has none."""
    if seconds is None:
        return condition
    if isinstance(condition, AllOf | AnyOf | NOf):
        return msgspec.structs.replace(condition, of=tuple(with_expiry(operand, seconds) for operand in condition.of))
    return condition if condition.expire_after_s else msgspec.structs.replace(condition, expire_after_s=seconds)


def in_time_zone(where: str, timing: Timing, timezone: str) -> Timing:
    """The timing with its deadline in a time zone. Raises DagError for an unknown zone."""
    if timing.deadline is None or timing.deadline.at is None:
        return timing
    deadline = msgspec.structs.replace(timing.deadline, timezone=time_zone(where, timezone))
    return msgspec.structs.replace(timing, deadline=deadline)
