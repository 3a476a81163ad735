"""The limit of a caller's requests."""

import pytest

from tidegate.daemon.gateway import rate_limit
from tidegate.daemon.gateway.problem import TooManyError
from tidegate.daemon.gateway.rate_limit import RateLimit


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def taken(limit: RateLimit, caller: str = "anna", most: int = 1000) -> int:
    """The number of requests until one is refused."""
    for number in range(most):
        try:
            limit.take(caller)
        except TooManyError:
            return number
    return most


def test_a_caller_has_a_burst_and_then_the_rate() -> None:
    clock = Clock()
    limit = RateLimit(2, clock)

    assert taken(limit) == 20
    clock.now += 3
    assert taken(limit) == 6
    clock.now += 3600
    assert taken(limit) == 20


def test_a_refusal_says_when_the_next_may_come() -> None:
    clock = Clock()
    limit = RateLimit(0.25, clock, "failed logins")
    assert taken(limit) == 2

    with pytest.raises(TooManyError) as refused:
        limit.take("anna")

    assert (str(refused.value), refused.value.retry_s) == ("anna sends more than 0.25 failed logins a second; wait for 2 s", 2)
    clock.now += 2
    limit.take("anna")


def test_callers_have_limits_of_their_own_and_zero_is_none() -> None:
    limit = RateLimit(1, Clock())
    assert (taken(limit), taken(limit, "ben")) == (10, 10)
    assert taken(RateLimit(0, Clock())) == 1000


def test_only_the_last_callers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "CALLERS", 2)
    limit = RateLimit(1, Clock())
    assert [taken(limit, caller) for caller in ("a", "b", "a", "c", "a")] == [10, 10, 0, 10, 0]
    assert taken(limit, "b") == 10
