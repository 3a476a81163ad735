"""What is said of servers that come and go."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from tidegate.daemon.containment import Containment
from tidegate.daemon.outage import STEADY_S, Outages
from tidegate.schemas.error import LockedError, UnavailableError
from tidegate.schemas.queries.leases import Away
from tidegate.schemas.time_range import EARLIEST, LATEST

FULL = UnavailableError("no space is left", server="Postgres")


class Clock:
    """The time of a test, which moves by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def passes(self) -> None:
        """Long enough to be steady."""
        self.at += STEADY_S + 1


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(anyio, "current_time", lambda: clock.at)
    return clock


def events(logs: Sequence[Any]) -> list[str]:
    return [line["event"] for line in logs]


def test_an_outage_is_said_once_and_so_is_its_end() -> None:
    outages = Outages()
    with capture_logs() as logs:
        for _ in range(3):
            outages.begin(FULL)
        for _ in range(3):
            outages.end("Postgres")

    assert events(logs) == ["server_lost", "server_back"]


def test_a_row_that_another_session_holds_is_no_outage() -> None:
    outages = Outages()
    held, backend = LockedError("a row", server="Postgres"), Containment(outages, "submit_failed")

    def submit() -> None:
        raise held

    with capture_logs() as logs, backend.of("an attempt"):
        outages.begin(held)
        submit()

    assert (logs, outages.away, backend.is_out) == ([], {}, False)


def test_an_outage_has_its_newest_reason_and_its_first_time() -> None:
    times = iter((EARLIEST, LATEST))
    outages = Outages(clock=lambda: next(times))
    with capture_logs() as logs:
        outages.begin(FULL)
        outages.begin(UnavailableError("it does not answer", server="Postgres"))

    assert outages.away == {"Postgres": Away(EARLIEST, "it does not answer")}
    assert events(logs) == ["server_lost"]


def test_a_server_that_comes_and_goes_is_said_to_be_unsteady_until_it_stays(clock: Clock) -> None:
    outages = Outages()
    with capture_logs() as logs:
        for _ in range(20):
            outages.begin(FULL)
            outages.end("Postgres")
        outages.end("Postgres")
        clock.passes()
        outages.end("Postgres")

    assert events(logs) == ["server_lost", "server_back", "server_unsteady", "server_back"]
    assert logs[2]["error"] == "no space is left"


def test_a_listener_hears_of_every_change() -> None:
    heard: list[frozenset[str]] = []
    outages = Outages(heard.append)
    with capture_logs():
        for _ in range(2):
            outages.begin(FULL)
            outages.end("Postgres")

    assert heard == [frozenset({"Postgres"}), frozenset()] * 2
    assert outages.away == {}


def test_a_server_that_stayed_for_long_is_lost_anew(clock: Clock) -> None:
    outages = Outages()
    with capture_logs() as logs:
        outages.begin(FULL)
        outages.end("Postgres")
        clock.passes()
        outages.begin(FULL)

    assert events(logs) == ["server_lost", "server_back", "server_lost"]


def test_a_server_that_was_unsteady_and_that_was_not_asked_for_long_is_lost_anew(clock: Clock) -> None:
    outages = Outages()
    with capture_logs() as logs:
        for _ in range(2):
            outages.begin(FULL)
            outages.end("Postgres")
        clock.passes()
        outages.begin(FULL)
        outages.end("Postgres")

    assert events(logs) == ["server_lost", "server_back", "server_unsteady", "server_lost", "server_back"]
