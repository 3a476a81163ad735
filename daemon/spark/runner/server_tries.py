"""Requests to a Spark server in a thread, in bounded time: a server that hangs would hold up the runner."""

import threading
import time
from collections.abc import Callable

PAUSE_S = 1.0


class FinalError(Exception):
    """The server has refused the request, and will again."""


class Tries:
    """Tries of a request. It returns its problem, empty after a success, or raises FinalError."""

    def __init__(self, request: Callable[[], str]) -> None:
        self._request = request
        self._problem = ""
        self._is_over = threading.Event()

    def problem(self, within_s: float, *, again: bool) -> str:
        """Of the last try; empty after a success. `again`: try until a success, a FinalError, or the end of the time."""
        until = time.monotonic() + within_s
        threading.Thread(target=self._run, kwargs={"until": until, "again": again}, name="session", daemon=True).start()
        if self._is_over.wait(within_s):
            return self._problem
        return self._problem or f"it did not answer within {within_s:g} s"

    def _run(self, *, until: float, again: bool) -> None:
        try:
            while (problem := self._request()) and again and time.monotonic() + PAUSE_S < until:
                self._problem = problem
                time.sleep(PAUSE_S)
        except FinalError as error:
            problem = str(error)
        self._problem = problem
        self._is_over.set()
