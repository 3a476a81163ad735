"""The loop whose time is moved."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.simulation.loop import VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_no_sleeper_wakes_up_before_time_is_moved(loop: VirtualLoop) -> None:
    woken: list[str] = []

    async def sleep(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(name)

    async def main() -> None:
        sleepers = [loop.create_task(sleep(name, seconds)) for name, seconds in (("late", 20.0), ("soon", 10.0))]
        await loop.idle()
        assert (woken, loop.time(), loop.next_timer()) == ([], 0.0, 10.0)
        loop.move_to(19.999999)
        await loop.idle()
        assert woken == ["soon"]
        loop.move_to(20.0)
        await asyncio.gather(*sleepers)

    loop.run_until_complete(main())

    assert woken == ["soon", "late"]


def test_timers_of_one_moment_fire_in_the_order_of_falling_asleep(loop: VirtualLoop) -> None:
    woken: list[int] = []

    async def main() -> None:
        cancelled = [loop.call_later(5.0 + number / 7, woken.append, -1) for number in range(150)]
        for number in range(100):
            loop.call_later(5.0, woken.append, number)
        for handle in cancelled:
            handle.cancel()
        await loop.idle()
        loop.move_to(5.0)
        await loop.idle()

    loop.run_until_complete(main())

    assert woken == list(range(100))


def test_a_limit_that_lies_between_two_microseconds_ends_once_it_has_passed(loop: VirtualLoop) -> None:
    async def main() -> None:
        async with asyncio.timeout(0.1 + 0.2):  # 0.30000000000000004
            await asyncio.Event().wait()

    async def late() -> None:
        waiting = loop.create_task(main())
        await loop.idle()
        loop.move_to(loop.next_timer() or 0.0)
        with pytest.raises(TimeoutError):
            await waiting

    loop.run_until_complete(late())

    assert loop.time() == 0.300001
