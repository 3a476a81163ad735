"""What is said of servers that come and go."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from tidegate.daemon import outage
from tidegate.daemon.outage import Outages
from tidegate.schemas.error import UnavailableError

FULL = UnavailableError("no space is left", server="Postgres")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "STEADY_S", 0.2)


def events(logs: Sequence[Any]) -> list[str]:
    return [line["event"] for line in logs]


async def test_an_outage_is_said_once_and_so_is_its_end() -> None:
    outages = Outages()
    with capture_logs() as logs:
        for _ in range(3):
            outages.begin(FULL)
        for _ in range(3):
            outages.end("Postgres")

    assert events(logs) == ["server_lost", "server_back"]


async def test_a_server_that_comes_and_goes_is_said_to_be_unsteady_until_it_stays() -> None:
    outages = Outages()
    with capture_logs() as logs:
        for _ in range(20):
            outages.begin(FULL)
            outages.end("Postgres")
        outages.end("Postgres")
        await anyio.sleep(0.3)
        outages.end("Postgres")

    assert events(logs) == ["server_lost", "server_back", "server_unsteady", "server_back"]
    assert logs[2]["error"] == "no space is left"


async def test_who_wants_to_know_hears_of_every_change() -> None:
    heard: list[frozenset[str]] = []
    outages = Outages(heard.append)
    with capture_logs():
        for _ in range(2):
            outages.begin(FULL)
            outages.end("Postgres")

    assert heard == [frozenset({"Postgres"}), frozenset()] * 2
    assert outages.away == {}


async def test_a_server_that_stayed_for_long_is_lost_anew() -> None:
    outages = Outages()
    with capture_logs() as logs:
        outages.begin(FULL)
        outages.end("Postgres")
        await anyio.sleep(0.3)
        outages.begin(FULL)

    assert events(logs) == ["server_lost", "server_back", "server_lost"]


async def test_a_server_that_was_unsteady_and_that_was_not_asked_for_long_is_lost_anew() -> None:
    outages = Outages()
    with capture_logs() as logs:
        for _ in range(2):
            outages.begin(FULL)
            outages.end("Postgres")
        await anyio.sleep(0.3)
        outages.begin(FULL)
        outages.end("Postgres")

    assert events(logs) == ["server_lost", "server_back", "server_unsteady", "server_lost", "server_back"]
