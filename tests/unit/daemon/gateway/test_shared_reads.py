"""Reads that callers share."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from tidegate.daemon.gateway.shared_reads import SharedReads

PAGE = ("/dags/{dag_id}", "daily")


async def settle() -> None:
    """Several times: a task that waits for one that has ended counts as blocked until the callbacks of that one ran."""
    for _ in range(5):
        await anyio.wait_all_tasks_blocked()


class Work:
    """A read that ends when it is told to. `begun` is how often it has begun."""

    def __init__(self, reads: SharedReads) -> None:
        self.begun = 0
        self.is_cancelled = False
        self.error: Exception | None = None
        self._reads = reads
        self._ends: list[anyio.Event] = []

    async def __call__(self) -> int:
        self.begun += 1
        number, end = self.begun, anyio.Event()
        self._ends.append(end)
        try:
            await end.wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        if self.error is not None:
            raise self.error
        return number

    async def end(self) -> None:
        """End the read that is running."""
        self._ends.pop(0).set()
        await settle()

    def caller(self, found: list[object], key: object = PAGE) -> Callable[[], Coroutine[Any, Any, None]]:
        async def call() -> None:
            try:
                found.append(await self._reads.read(key, self))
            except ValueError as error:
                found.append(str(error))

        return call


@pytest.fixture
def work() -> Work:
    return Work(SharedReads())


async def test_callers_during_a_read_share_the_next_one(work: Work) -> None:
    first: list[object] = []
    others: list[object] = []
    async with anyio.create_task_group() as tg:
        tg.start_soon(work.caller(first))
        await settle()
        for _ in range(3):
            tg.start_soon(work.caller(others))
        await settle()
        begun = work.begun
        await work.end()
        await work.end()

    assert (begun, first, others) == (1, [1], [2, 2, 2])


async def test_other_pages_do_not_wait(work: Work) -> None:
    found: list[object] = []
    async with anyio.create_task_group() as tg:
        tg.start_soon(work.caller(found))
        tg.start_soon(work.caller(found, ("/dags/{dag_id}", "weekly")))
        await settle()
        begun = work.begun
        await work.end()
        await work.end()

    assert (begun, found) == (2, [1, 2])


async def test_an_error_is_that_of_all_its_callers_and_of_no_later_one(work: Work) -> None:
    found: list[object] = []
    async with anyio.create_task_group() as tg:
        for _ in range(3):
            tg.start_soon(work.caller(found))
            await settle()
        await work.end()
        work.error = ValueError("away")
        await work.end()
        work.error = None
        tg.start_soon(work.caller(found))
        await settle()
        await work.end()

    assert found == [1, "away", "away", 3]


@pytest.mark.parametrize("is_running", [False, True])
async def test_a_caller_that_is_gone_takes_no_other_along(work: Work, *, is_running: bool) -> None:
    found: list[object] = []
    gone = anyio.CancelScope()

    async def leave() -> None:
        with gone:
            await work.caller(found)()

    async with anyio.create_task_group() as tg:
        if not is_running:
            tg.start_soon(work.caller(found))
            await settle()
        tg.start_soon(leave)
        await settle()
        for _ in range(2):
            tg.start_soon(work.caller(found))
        await settle()
        gone.cancel()
        await settle()
        while work.begun < 2 or len(found) < 2 + (not is_running):
            await work.end()

    assert found == ([2, 2] if is_running else [1, 2, 2])


async def test_a_read_goes_on_without_its_caller(work: Work) -> None:
    gone = anyio.CancelScope(deadline=-1)
    with gone:
        await work.caller([])()
    await settle()

    assert (gone.cancelled_caught, work.begun, work.is_cancelled) == (True, 1, False)


async def test_the_end_of_the_process_ends_its_reads() -> None:
    reads = SharedReads()
    work = Work(reads)
    with anyio.CancelScope(deadline=-1):
        await work.caller([])()
    await settle()
    await reads.aclose()

    assert work.is_cancelled
