"""Reads that callers share."""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from tidegate.daemon.gateway.shared_reads import SharedReads

PAGE = ("/dags/{dag_id}", "daily")


class Work:
    """A read that ends when it is told to. `begun` is how often it has begun."""

    def __init__(self, reads: SharedReads) -> None:
        self.begun = 0
        self.error: Exception | None = None
        self._reads = reads
        self._ends: list[anyio.Event] = []

    async def __call__(self) -> int:
        self.begun += 1
        number, end = self.begun, anyio.Event()
        self._ends.append(end)
        await end.wait()
        if self.error is not None:
            raise self.error
        return number

    async def end(self) -> None:
        """End the read that is running."""
        self._ends.pop(0).set()
        await anyio.wait_all_tasks_blocked()

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
        await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            tg.start_soon(work.caller(others))
        await anyio.wait_all_tasks_blocked()
        begun = work.begun
        await work.end()
        await work.end()

    assert (begun, first, others) == (1, [1], [2, 2, 2])


async def test_other_pages_do_not_wait(work: Work) -> None:
    found: list[object] = []
    async with anyio.create_task_group() as tg:
        tg.start_soon(work.caller(found))
        tg.start_soon(work.caller(found, ("/dags/{dag_id}", "weekly")))
        await anyio.wait_all_tasks_blocked()
        begun = work.begun
        await work.end()
        await work.end()

    assert (begun, found) == (2, [1, 2])


async def test_an_error_is_that_of_all_its_callers_and_of_no_later_one(work: Work) -> None:
    found: list[object] = []
    async with anyio.create_task_group() as tg:
        for _ in range(3):
            tg.start_soon(work.caller(found))
        await anyio.wait_all_tasks_blocked()
        await work.end()
        work.error = ValueError("away")
        await work.end()
        work.error = None
        tg.start_soon(work.caller(found))
        await anyio.wait_all_tasks_blocked()
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
            await anyio.wait_all_tasks_blocked()
        tg.start_soon(leave)
        await anyio.wait_all_tasks_blocked()
        for _ in range(2):
            tg.start_soon(work.caller(found))
        await anyio.wait_all_tasks_blocked()
        gone.cancel()
        await anyio.wait_all_tasks_blocked()
        while work.begun < 2 or len(found) < 2 + (not is_running):
            await work.end()

    assert found == ([2, 2] if is_running else [1, 2, 2])
