"""A duty waits for the end of the batches of intake, and not for ever."""

from contextlib import ExitStack

import anyio
import pytest

from tidegate.daemon.busy_intake import BusyIntake

LONG_S = 60.0


async def test_without_a_batch_there_is_nothing_to_wait_for() -> None:
    busy = BusyIntake()
    with busy.batch():
        pass

    with anyio.fail_after(LONG_S / 2):
        await busy.wait_for_gap(LONG_S)


async def test_the_wait_ends_with_the_last_of_several_batches() -> None:
    busy, events = BusyIntake(), list[str]()

    async def wait() -> None:
        await busy.wait_for_gap(LONG_S)
        events.append("gap")

    with anyio.fail_after(LONG_S / 2):
        async with anyio.create_task_group() as tg:
            with ExitStack() as batches:
                for _ in range(2):
                    batches.enter_context(busy.batch())
                tg.start_soon(wait)
                tg.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                with busy.batch():
                    events.append("third")
                await anyio.wait_all_tasks_blocked()
                events.append("last")

    assert events == ["third", "last", "gap", "gap"]


async def test_a_batch_that_fails_has_ended() -> None:
    busy = BusyIntake()
    with pytest.raises(RuntimeError), busy.batch():
        raise RuntimeError

    with anyio.fail_after(LONG_S / 2):
        await busy.wait_for_gap(LONG_S)


async def test_the_wait_for_a_long_batch_has_a_bound() -> None:
    busy = BusyIntake()

    with busy.batch(), anyio.fail_after(LONG_S):
        await busy.wait_for_gap(0.01)
