"""Limits the requests of each caller: a bucket that fills with `per_s` tokens a second, and holds those of `BURST_S` seconds."""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from tidegate.daemon.gateway.problem import TooManyError

BURST_S = 10.0
CALLERS = 10_000
"""The number of callers that a process remembers, the last ones."""


class Bucket(NamedTuple):
    """The tokens of a caller at a time."""

    tokens: float
    at: float


class RateLimit:
    """The limits of one process. `clock` is monotonic, in seconds. `per_s` 0: no limit. `counted` says what callers send."""

    def __init__(self, per_s: float, clock: Callable[[], float], counted: str = "requests") -> None:
        self._per_s = per_s
        self._clock = clock
        self._counted = counted
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, caller: str) -> None:
        """Count a request. Raises TooManyError."""
        if not self._per_s:
            return
        now = self._clock()
        most = max(self._per_s * BURST_S, 1.0)
        before = self._buckets.pop(caller, Bucket(most, now))
        tokens = min(before.tokens + (now - before.at) * self._per_s, most)
        self._buckets[caller] = Bucket(tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._buckets) > CALLERS:
            self._buckets.popitem(last=False)
        if tokens < 1:
            wait_s = math.ceil((1 - tokens) / self._per_s)
            raise TooManyError(f"{caller} sends more than {self._per_s:g} {self._counted} a second; wait for {wait_s} s", wait_s)
