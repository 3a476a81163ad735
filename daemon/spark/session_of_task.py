"""The session that a runner leads: it holds the programs of the task that have not left it, also after the end of the runner.

In one namespace of processes, the number of a session is not given to a new process while one is in it.
"""

import os
from collections.abc import Iterable

from tidegate.daemon.spark.process import Identity, alive, identify, in_session, may_signal

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Session:
    """The session with this number and these processes. What is found beside one of them belongs to it, too."""

    def __init__(self, number: int, known: Iterable[Identity]) -> None:
        self._number = number
        self._known = set(known)

    def processes(self) -> Iterable[Identity]:
        """Those which run, and which this user may signal. None of a later session with the same number."""
        found = set(in_session(self._number))
        if self._known.isdisjoint(found):
            return ()
        self._known |= found
        return [process for process in found if alive(process) and may_signal(process.pid)]


def of_living(leader: Identity) -> Session:
    return Session(leader.pid, {leader})


def of_ended(leader: Identity, until_s: float) -> Session:
    """The session of a leader that has ended, `until_s` after the start of the host at the latest.

    A process tells it from a later one with the same number if it was started until then. It is not told if the leader is older
    than the first process of its container: after a restart of a container, the same numbers are given to others.
    """
    first, until = identify(1), until_s * TICKS_PER_S
    if first is None or first.start_time > leader.start_time:
        return Session(leader.pid, ())
    found = (process for process in in_session(leader.pid) if process.boot_id == leader.boot_id)
    return Session(leader.pid, (process for process in found if leader.start_time <= process.start_time <= until))
