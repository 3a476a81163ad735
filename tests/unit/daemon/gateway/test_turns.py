"""Computations of callers, one at a time for each."""

import anyio

from tidegate.daemon.gateway.turns import Turns


async def test_a_caller_computes_once_at_a_time_and_delays_no_other() -> None:
    turns, begun, go_on = Turns(), list[str](), anyio.Event()

    async def compute(caller: str) -> None:
        async with turns.of(caller):
            begun.append(caller)
            await go_on.wait()

    async with anyio.create_task_group() as tasks:
        for caller in ("anna", "anna", "anna", "ben"):
            tasks.start_soon(compute, caller)
        await anyio.wait_all_tasks_blocked()
        assert begun == ["anna", "ben"]
        go_on.set()

    assert begun == ["anna", "ben", "anna", "anna"]
    assert len(turns) == 0


async def test_a_caller_that_is_gone_leaves_its_turn_to_the_next() -> None:
    turns, begun = Turns(), list[int]()

    async def compute(number: int) -> None:
        async with turns.of("anna"):
            begun.append(number)

    async with turns.of("anna"), anyio.create_task_group() as tasks:
        tasks.start_soon(compute, 1)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(compute, 2)

    assert begun == [2]
    assert len(turns) == 0
