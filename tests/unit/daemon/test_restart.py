"""A duty that breaks starts again, and is spoken of once."""

import math

import anyio
import pytest
from anyio.abc import TaskStatus
from structlog.testing import capture_logs

from tidegate.daemon import outage, restart
from tidegate.daemon.outage import Outages
from tidegate.daemon.restart import all_set, begin, kept_up


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(outage, "LONGEST_PAUSE_S", 0.02)
    monkeypatch.setattr(restart, "STEADY_S", math.inf)


class Recovery:
    """`is_over` is set once no outage is left."""

    def __init__(self) -> None:
        self.is_over = anyio.Event()
        self.outages = Outages(self._changed)

    def _changed(self, away: frozenset[str]) -> None:
        if not away:
            self.is_over.set()


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> Recovery:
    """A duty is steady very soon after its start."""
    monkeypatch.setattr(restart, "STEADY_S", 0.01)
    return Recovery()


class Duty:
    """Fails as often as there are errors, then works."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.starts = 0
        self.works = anyio.Event()

    async def __call__(self, *, task_status: TaskStatus[None]) -> None:
        self.starts += 1
        task_status.started()
        if self.errors:
            raise self.errors.pop(0)
        self.works.set()
        await anyio.sleep_forever()


async def run_until_it_works(duty: Duty, outages: Outages, recovered: anyio.Event | None = None) -> list[str]:
    with capture_logs() as logs, anyio.fail_after(60):
        async with anyio.create_task_group() as tg:
            await tg.start(kept_up, "work", duty, outages)
            await duty.works.wait()
            if recovered:
                await recovered.wait()
            tg.cancel_scope.cancel()
    return [line["event"] for line in logs]


async def test_a_broken_duty_starts_again_and_each_fault_is_logged_once() -> None:
    duty, outages = Duty(KeyError("a"), KeyError("a"), KeyError("a"), ValueError("b")), Outages()

    events = await run_until_it_works(duty, outages)

    assert duty.starts == 5
    assert events.count("duty_failed") == 2
    assert (events.count("duty_degraded"), events.count("server_lost")) == (1, 0)
    assert list(outages.away) == ["duty work"]
    assert "ValueError: b" in str(outages.away["duty work"])


async def test_a_duty_that_works_for_a_while_is_back(steady: Recovery) -> None:
    events = await run_until_it_works(Duty(KeyError("a")), steady.outages, steady.is_over)

    assert steady.outages.away == {}
    assert events[-1] == "duty_recovered"


async def test_a_fault_that_comes_again_after_the_duty_worked_has_its_traceback_again(steady: Recovery) -> None:
    class Relapsing(Duty):
        async def __call__(self, *, task_status: TaskStatus[None]) -> None:
            self.starts += 1
            task_status.started()
            if self.starts == 2:
                await steady.is_over.wait()
            if self.starts <= 2:
                raise KeyError("a")
            self.works.set()
            await anyio.sleep_forever()

    events = await run_until_it_works(Relapsing(), steady.outages)

    assert events.count("duty_failed") == 2


async def test_a_fault_of_a_task_within_the_duty_is_named_itself() -> None:
    outages = Outages()

    await run_until_it_works(Duty(ExceptionGroup("tasks", [ExceptionGroup("inner", [KeyError("deep")])])), outages)

    assert "KeyError: 'deep'" in str(outages.away["duty work"])


async def test_a_duty_without_memory_ends_the_daemon() -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        await run_until_it_works(Duty(MemoryError()), Outages())

    assert caught.group_contains(MemoryError)


class Stillborn:
    """Fails before it has started."""

    async def __call__(self, *, task_status: TaskStatus[None]) -> None:  # noqa: ARG002 - it never starts
        raise KeyError("stillborn")


async def test_a_duty_that_fails_before_it_has_started_keeps_no_other_from_starting() -> None:
    duty, late, outages = Duty(), Duty(), Outages()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tg:
            broken = begin(tg, outages, "broken", Stillborn())
            works = begin(tg, outages, "works", duty)
            await all_set([broken, works], 0.1)
            await all_set([begin(tg, outages, "late", late)], 60)
            started = (broken.is_set(), works.is_set(), late.starts)
            tg.cancel_scope.cancel()

    assert started == (False, True, 1)
    assert list(outages.away) == ["duty broken"]


async def test_a_duty_that_starts_at_its_second_try_is_known_to_have_started() -> None:
    outages, tries = Outages(), Duty(KeyError("once"))

    async def duty(*, task_status: TaskStatus[None]) -> None:
        if not tries.starts:
            tries.starts += 1
            raise KeyError("before its start")
        await tries(task_status=task_status)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tg:
            await begin(tg, outages, "work", duty).wait()
            tg.cancel_scope.cancel()

    assert tries.starts >= 2
