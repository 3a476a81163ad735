"""The heartbeats of runners as a daemon of their host sees them: a runner that is frozen sends none, and ends nothing.

A runner without contact ends its task by itself. One that is stopped or hangs cannot, while its task works on, beside the retry
that another host begins after `silent_s`. So a daemon of the host ends the runner, after the same share of that time.
"""

from collections.abc import Callable
from uuid import UUID

from tidegate.daemon.spark.contact import SHARE, elapsed


class SeenBeats:
    """When the last heartbeat of each runner was first seen. Heartbeats are compared, not their times: a clock can be set.

    `silent_s`: how long other hosts wait. `now` in seconds, of a clock that goes on while the host is suspended.
    """

    def __init__(self, silent_s: float, now: Callable[[], float] = elapsed) -> None:
        self._limit_s = SHARE * silent_s
        self._now = now
        self._seen: dict[UUID, tuple[int | None, float]] = {}

    def is_frozen(self, submission_id: UUID, beat: int | None) -> bool:
        """Whether the runner has sent no heartbeat after `beat` for too long."""
        now = self._now()
        last, since = self._seen.get(submission_id, (beat, now))
        self._seen[submission_id] = (beat, since if last == beat else now)
        return last == beat and now - since >= self._limit_s

    def forget(self, submission_id: UUID) -> None:
        """The runner has ended."""
        self._seen.pop(submission_id, None)
