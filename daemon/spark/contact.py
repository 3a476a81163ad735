"""The contact of a runner with the daemons: when the last of its heartbeats was sent that a daemon has recorded.

Other hosts retry a task when no heartbeat of its attempt was recorded for some time. Its runner ends before that, so that the
task never runs twice at the same time. A daemon records a heartbeat after it was sent, so the runner counts from the earlier
moment. A runner that is frozen cannot end: a daemon of its host kills it when it has sent no heartbeat for as long.
"""

import math
import time

SHARE = 0.75
"""The runner ends, or is killed, after this share of the time that other hosts wait. The rest is for ending its processes."""

CHECKS = 20
"""How often the contact is checked in this time."""


def elapsed() -> float:
    """Seconds since the start of the host, with the time of its suspensions: the other hosts wait on.

    A task that stops the clocks of Python, as for a test, does not stop this one.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def beat_every_s(heartbeat_s: float, silent_s: float | None) -> float:
    """How often a runner sends a heartbeat: as it is told, and often enough to keep contact."""
    return min(heartbeat_s, Contact(silent_s).check_every_s)


class Contact:
    """`silent_s`: how long other hosts wait; None: for ever. The contact begins with the runner."""

    def __init__(self, silent_s: float | None) -> None:
        self._limit_s = math.inf if silent_s is None else SHARE * silent_s
        self._recorded_at = elapsed()
        self._beats: dict[int, float] = {}

    @property
    def check_every_s(self) -> float:
        return self._limit_s / CHECKS

    def add(self, beat: int) -> None:
        """A heartbeat was sent."""
        self._beats[beat] = elapsed()

    def confirm(self, beat: int | None) -> None:
        """A daemon has recorded this heartbeat; another number is none of this runner."""
        if beat in self._beats:
            self._recorded_at = self._beats[beat]
            self._beats = {other: at for other, at in self._beats.items() if at > self._recorded_at}

    def lost_s(self) -> float | None:
        """How long no heartbeat was recorded, if that is too long."""
        age_s = elapsed() - self._recorded_at
        return age_s if age_s >= self._limit_s else None
