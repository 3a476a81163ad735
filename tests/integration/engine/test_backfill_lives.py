"""Random lives of backfills, checked after each step: counts equal rows, and each date has one run or one reason."""

import os
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from tests.backfill_rules import BROKEN
from tests.integration.engine.test_backfills import WORK, act, asked, counts_agree, daily, day, settle
from tests.integration.engine.world import World
from tidegate.schemas.backfill import Reprocess
from tidegate.schemas.dag import CommandTask
from tidegate.schemas.message import BackfillAction, BackfillChanged, ClearRequested, RunEndRequested
from tidegate.schemas.state import RunState

SEED = int(os.environ.get("TEST_SEED", "11"))
SEEDS = range(SEED, SEED + (60 if os.environ.get("TEST_LONG") and "TEST_SEED" not in os.environ else 1))

MORE = CommandTask(task_id="more", argv=("true",), upstream=("work",))
BESIDE = CommandTask(task_id="beside", argv=("true",))

ACTIONS = [*BackfillAction, *[BackfillAction.RETRY] * 3, BackfillAction.CANCEL]
"""Retries are drawn often: a cancel between a retry and the end of its runs is where counts went wrong."""


async def holds(world: World) -> None:
    for name, sql in BROKEN.items():
        assert await world.rows(sql) == [], name
    await counts_agree(world)


async def ids(world: World, sql: str) -> list[Any]:
    return [row[0] for row in await world.rows(sql)]


async def step(world: World, chance: Random) -> Any:
    """One thing that happens; returned to say what."""
    known = await ids(world, "SELECT id FROM backfill WHERE NOT deleted ORDER BY id")
    runs = await ids(world, "SELECT run_id FROM dag_run ORDER BY id")
    attempts = await world.attempts()
    happens = chance.choice(["create", *["act"] * 3, "set", "clear", "end", *["finish"] * 6])
    if happens == "create" or not known:
        return await create(world, chance)
    if happens == "act":
        action, id_ = chance.choice(ACTIONS), chance.choice(known)
        kills = action is BackfillAction.CANCEL and chance.random() < 0.5
        return action, id_, kills, await act(world, id_, action, kills=kills)
    if happens == "set":
        return await change(world, chance, known)
    if happens == "clear" and runs:
        request = ClearRequested(dag_id="d", run_id=chance.choice(runs))
        return request, await world.tell(request)
    if happens == "end" and runs:
        state = chance.choice([RunState.SUCCESS, RunState.FAILED])
        end = RunEndRequested(dag_id="d", run_id=chance.choice(runs), state=state, reason="a user")
        return end, await world.tell(end)
    await world.admit()
    await world.submit()
    outcome = chance.choice(["succeeded", "failed", "failed"])
    for attempt in attempts:
        await world.finish(attempt, outcome)
    return outcome, len(attempts)


async def create(world: World, chance: Random) -> Any:
    first = chance.randint(1, 6)
    last = chance.randint(first, 6)
    facts: dict[str, Any] = {
        "reprocess": chance.choice(list(Reprocess)),
        "is_reverse": chance.random() < 0.3,
        "limits": {"max_active_runs": chance.randint(1, 2), "max_failed_runs": chance.choice([0, 0, 2])},
    }
    if chance.random() < 0.3:
        facts["logical_dates"] = tuple({day(first), day(last)})
    return "create", first, last, facts, await asked(world, first, last, **facts)


async def change(world: World, chance: Random, known: Sequence[int]) -> Any:
    limit = {chance.choice(["max_active_runs", "max_failed_runs"]): chance.randint(1, 3)}
    end = day(chance.randint(1, 8)) if chance.random() < 0.3 else None
    request = BackfillChanged(backfill_id=chance.choice(known), changes=limit, end_date=end)
    return request, await world.tell(request)


async def finish_all(world: World) -> None:
    """Until nothing is left to do, each backfill ends."""
    for id_ in await ids(world, "SELECT id FROM backfill WHERE state = 'paused'"):
        await act(world, id_, BackfillAction.RESUME)
    for _ in range(40):
        await world.admit()
        await world.submit()
        for attempt in await world.attempts():
            await world.finish(attempt)
        await settle(world)
    assert await ids(world, "SELECT id FROM backfill WHERE state NOT IN ('cancelled', 'success', 'failed')") == []


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
async def test_any_life_of_backfills_keeps_its_counts_and_ends(world: World, seed: int) -> None:
    chance = Random(seed)
    await world.file(daily(WORK, MORE, BESIDE))
    life: list[Any] = []
    for _ in range(30):
        life.append(await step(world, chance))
        await settle(world)
        try:
            await holds(world)
        except AssertionError as error:
            raise AssertionError(f"{error}\nafter {life[-8:]}") from error
    await finish_all(world)
    await holds(world)
