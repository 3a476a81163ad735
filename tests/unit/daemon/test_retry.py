"""Retry: outages are reported and waited out, other errors pass."""

import random
from collections.abc import Sequence

import anyio
import pytest
from structlog.testing import capture_logs

from tidegate.daemon.outage import Backoff, Outages, Retry
from tidegate.schemas.error import UnavailableError

AWAY = UnavailableError("connection refused", server="Postgres")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The longest pause after each failure; none is waited for."""
    longest: list[float] = []

    async def sleep(_seconds: float) -> None: ...

    def uniform(_first: float, last: float) -> float:
        longest.append(last)
        return 0.0

    monkeypatch.setattr(random, "uniform", uniform)
    monkeypatch.setattr(anyio, "sleep", sleep)
    return longest


class Step:
    """Returns or raises one result after the other."""

    def __init__(self, *results: str | Exception | None) -> None:
        self._results = iter(results)
        self.calls: list[Sequence[int]] = []

    async def __call__(self, *args: int) -> str | None:
        self.calls.append(args)
        result = next(self._results)
        if isinstance(result, Exception):
            raise result
        return result


async def test_once_returns_the_result_of_the_step(pauses: list[float]) -> None:
    step = Step("done")

    assert await Retry(Outages()).once(step, 1, 2) == "done"
    assert (step.calls, pauses) == ([(1, 2)], [])


async def test_once_reports_an_outage_pauses_and_returns_none(pauses: list[float]) -> None:
    outages = Outages()
    with capture_logs():
        result = await Retry(outages).once(Step(AWAY))

    assert (result, list(outages.away), len(pauses)) == (None, ["Postgres"], 1)


async def test_until_done_repeats_the_step_also_where_its_result_is_none(pauses: list[float]) -> None:
    step = Step(AWAY, AWAY, None)
    with capture_logs():
        result = await Retry(Outages()).until_done(step, 7)

    assert (result, step.calls, len(pauses)) == (None, [(7,)] * 3, 2)


async def test_pauses_double_up_to_a_limit_and_start_again_after_a_success(pauses: list[float]) -> None:
    tries = Retry(Outages())
    step = Step(*[AWAY] * 7, "done", AWAY)
    with capture_logs():
        for _ in range(9):
            await tries.once(step)

    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.2]


async def test_an_outage_of_hours_ends_no_duty(pauses: list[float]) -> None:
    backoff = Backoff()
    for _ in range(2_000):
        await backoff.pause()

    assert pauses[-1] == 5.0


@pytest.mark.parametrize(("ends_outages", "away"), [(True, []), (False, ["Postgres"])])
async def test_a_success_ends_the_outages_of_its_failures_where_it_proves_that(ends_outages: bool, away: list[str]) -> None:
    outages = Outages()
    tries = Retry(outages, ends_outages=ends_outages)
    with capture_logs():
        await tries.until_done(Step(AWAY, "done"))

    assert list(outages.away) == away


async def test_other_errors_pass(pauses: list[float]) -> None:
    with pytest.raises(ValueError, match="broken"):
        await Retry(Outages()).until_done(Step(ValueError("broken")))

    assert pauses == []


async def test_reporting_suppresses_an_outage_only() -> None:
    outages = Outages()
    with capture_logs(), outages.reporting():
        await Step(AWAY)()
    with pytest.raises(ValueError, match="broken"), outages.reporting():
        await Step(ValueError("broken"))()

    assert list(outages.away) == ["Postgres"]


async def test_a_block_without_an_outage_ends_those_that_its_work_met() -> None:
    outages, lost = Outages(), set[str]()
    with capture_logs():
        for step in (Step(AWAY), Step("done")):
            with outages.reporting(lost):
                await step()

    assert (dict(outages.away), lost) == ({}, set())
