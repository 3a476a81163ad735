"""Random cascades over three levels come to what a serial oracle says."""

from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest

from tests.integration.engine.test_backfills import act, asked, counts_agree, created, daily, run_of, settle, state_of
from tests.integration.engine.test_cascade import CASCADING, CONSUMED, TOO_EARLY, consumer, relay, run_all, tries, work_of
from tests.integration.engine.world import World
from tidegate.schemas.backfill import Reprocess
from tidegate.schemas.message import BackfillAction


class Oracle(NamedTuple):
    """What a person would run again by hand, in order; and which of it fails."""

    again: set[str]
    failed: set[str]


def oracle(origin: set[str], consumed: list[tuple[str, str]], order: list[str], failing: frozenset[str]) -> Oracle:
    """Runs as `dag run`; `consumed` are pairs of a run and a producer of its events; `order` has producers first."""
    again, failed = set(origin), {name for name in origin if name.split()[1] in failing}
    for run in order:
        if run not in again and any(taker == run and producer in again - failed for taker, producer in consumed):
            again.add(run)
            if run.split()[1] in failing:
                failed.add(run)
    return Oracle(again, failed)


@pytest.mark.parametrize("seed", range(8))
async def test_a_cascade_over_three_levels_is_what_a_serial_oracle_says(world: World, seed: int) -> None:
    chance = Random(seed)
    levels = [["d"], ["b0", "b1", "b2"], ["c0", "c1"], ["e0", "e1"]]
    specs = [daily(work_of("s://d"))]
    for above, level in pairwise(levels):
        known = [name for names in levels[: levels.index(above) + 1] for name in names]
        for name in level:
            inputs = chance.sample(known, chance.randint(1, min(2, len(known))))
            specs.append(consumer(name, inputs, f"s://{name}"))
    await world.file(*specs)
    await created(world, 1, 4, limits={"max_active_runs": chance.randint(1, 4)})
    await run_all(world, frozenset(run_of(number) for number in range(1, 5) if chance.random() < 0.3))
    before = await tries(world)
    consumed = [(row[0], f"{row[1]} {row[2]}") for row in await world.rows(CONSUMED)]
    failing = frozenset(name.split()[1] for name in before if chance.random() < 0.2)
    reprocess = chance.choice((Reprocess.FAILED, Reprocess.COMPLETED))
    ended = {row[0] for row in await world.rows("SELECT run_id FROM dag_run WHERE dag_id = 'd' AND state = 'failed'")}
    dates = {run_of(number) for number in range(2, 5) if reprocess is Reprocess.COMPLETED or run_of(number) in ended}
    limits = {"max_active_runs": chance.randint(1, 4)}
    assert (await asked(world, 2, 4, **CASCADING | {"reprocess": Reprocess.NONE}))[1] == ("not_possible",)

    id_ = await created(world, 2, 4, **CASCADING | {"reprocess": reprocess, "limits": limits})
    await run_all(world, failing)
    await settle_stages(world)

    order = [
        f"{dag} {run}"
        for level in levels
        for dag in level
        for run in sorted({n.split()[1] for n in before if n.split()[0] == dag})
    ]
    expected = oracle({f"d {run}" for run in dates}, consumed, order, failing)
    after = await tries(world)
    assert {name for name in before if after[name] > before[name]} == expected.again
    assert await state_of(world, id_) == ("failed" if expected.failed else "success")
    assert await world.rows(TOO_EARLY, id_) == []
    await counts_agree(world)
    if seed % 3 == 0:
        await retry_at_any_moment(world, id_, chance)
        assert await world.rows(TOO_EARLY, id_) == []
        await counts_agree(world)


MOST_RETRIES = 10
"""One retry of each of the four levels would do."""


async def retry_at_any_moment(world: World, id_: int, chance: Random) -> None:
    """Also while the runs of an earlier retry are at work; some of these fail. Until all have succeeded."""
    for _ in range(6):
        await act(world, id_, BackfillAction.RETRY)
        await world.admit()
        await world.submit()
        for attempt in await world.attempts():
            if chance.random() < 0.7:
                await world.finish(attempt, "failed" if chance.random() < 0.3 else "succeeded")
        world.clock.at += timedelta(seconds=1)
        await relay(world)
    for _ in range(MOST_RETRIES):
        await run_all(world)
        await settle_stages(world)
        if await state_of(world, id_) == "success":
            return
        await act(world, id_, BackfillAction.RETRY)
    pytest.fail(f"backfill {id_} is {await state_of(world, id_)} after {MOST_RETRIES} retries whose tasks all succeed")


async def settle_stages(world: World) -> None:
    """A stage without a run takes a step, too."""
    for _ in range(4):
        await settle(world)
