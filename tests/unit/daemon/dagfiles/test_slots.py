"""In which order files get slots."""

from contextlib import AsyncExitStack

import anyio
import pytest

from tidegate.daemon.dagfiles.slots import Slots


async def test_the_newest_and_the_oldest_file_take_turns() -> None:
    slots, order = Slots(1), list[int]()

    async def parse(number: int) -> None:
        async with slots.one():
            order.append(number)

    async with anyio.create_task_group() as tg, slots.one():
        for number in range(6):
            tg.start_soon(parse, number)
            await anyio.wait_all_tasks_blocked()

    assert order == [5, 0, 4, 1, 3, 2]


@pytest.mark.parametrize("has_turn", [False, True])
async def test_a_cancelled_file_keeps_no_slot(*, has_turn: bool) -> None:
    slots, scope = Slots(1), anyio.CancelScope()

    async def wait() -> None:
        with scope:
            async with slots.one():
                await anyio.sleep_forever()

    async with anyio.create_task_group() as tg, AsyncExitStack() as held:
        await held.enter_async_context(slots.one())
        tg.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        if has_turn:
            await held.aclose()
        scope.cancel()

    with anyio.fail_after(60):
        async with slots.one():
            pass
