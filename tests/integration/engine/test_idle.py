"""What counts as work for a daemon that ends when there is none: not what waits for a user."""

from datetime import timedelta

import anyio
import msgspec
import pytest

from tests.integration.engine.chains import clear, command, started
from tests.integration.engine.contexts import context_of
from tests.integration.engine.slots import pool
from tests.integration.engine.world import World, states
from tests.waiting import until
from tidegate.daemon import idle
from tidegate.daemon.context import Context
from tidegate.daemon.settings import Settings
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.message import TaskMarked
from tidegate.schemas.queries.idle import outstanding_work
from tidegate.schemas.state import TaskState

WAITING = command("a", depends_on_past=True)


def impatient(world: World, dsn: str) -> Context:
    """It looks often whether work is left."""
    return context_of(world.database, Settings(postgres_dsn=dsn, kafka_servers="localhost:1", sweep_s=0.01))


async def work_left(world: World) -> dict[str, int]:
    """By kind; without the outbox, which has no relay here."""
    found = msgspec.structs.asdict(await world.database.run(outstanding_work))
    return {kind: count for kind, count in found.items() if count and kind != "outbox"}


async def test_runs_that_wait_for_a_failed_one_and_the_queue_behind_them_are_no_work(world: World) -> None:
    await started(world, WAITING, runs=4, max_active_runs=2)
    before = await work_left(world)
    await world.work("failed")
    stuck = (await work_left(world), states(await world.runs()))
    await world.tell(TaskMarked(dag_id="d", run_id="r1", task_id="a", state=TaskState.SUCCESS))
    await world.reconsider()

    assert (before, stuck) == ({"runs": 1}, ({}, ["failed", "running", "running", "queued"]))
    assert (await work_left(world))["runs"] == 1


async def test_a_run_that_waits_is_work_when_it_times_out(world: World) -> None:
    await started(world, WAITING, runs=2, run_timeout_s=3600)
    await world.work("failed")
    stuck = await work_left(world)

    world.clock.at += timedelta(hours=1)

    assert (stuck, await work_left(world)) == ({}, {"runs": 1})


@pytest.mark.parametrize(
    ("slots", "lack"),
    [
        (None, "which does not exist"),
        (0, "which has 0 of the 3 slots that one needs"),
        (2, "which has 2 of the 3 slots that one needs"),
    ],
)
async def test_tasks_whose_pool_never_has_their_slots_are_no_work_and_are_named_in_the_end(
    world: World, dsn: str, monkeypatch: pytest.MonkeyPatch, slots: int | None, lack: str
) -> None:
    """A task after them, and the run that is queued behind them, wait as well."""
    if slots is not None:
        await pool(world, "p", slots)
    await started(world, command("a", pool="p", pool_slots=3), command("b", "a"), command("c"), runs=3, max_active_runs=2)
    before = await work_left(world)
    await world.work()
    stuck = await work_left(world)

    async def is_idle(_context: Context) -> bool:
        return not await work_left(world)

    monkeypatch.setattr(idle, "is_idle", is_idle)
    has_started = anyio.Event()
    has_started.set()
    with pytest.raises(idle.ShortPoolsError) as left:
        await idle.wait_until_over(impatient(world, dsn), idle.Until(idle=True), has_started)
    await pool(world, "p", 3)

    assert (before, stuck, await work_left(world)) == ({"runs": 3}, {}, {"runs": 3})
    assert str(left.value) == (
        f"nothing is left to do but this: 2 tasks wait for pool 'p', {lack}, such as of DAG 'd'; "
        "give the pool slots by `tidegate pools set p SLOTS`"
    )


async def test_a_daemon_reconsiders_the_runs_that_wait_for_another_version_before_it_ends(
    world: World, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = impatient(world, dsn)
    await started(world, WAITING, runs=2)
    await world.work("failed")
    await world.file(DagSpec(dag_id="d", tasks=(command("a"),)))
    await clear(world, newest_version=True)
    await world.work()
    waiting = (await world.tasks("r2"), await work_left(world))

    async def is_idle(_context: Context) -> bool:
        await world.reconsider()
        return not await work_left(world)

    async def goes_on() -> bool:
        return await world.tasks("r2") == {"a": "scheduled"}

    monkeypatch.setattr(idle, "is_idle", is_idle)
    async with anyio.create_task_group() as tg:
        tg.start_soon(idle.until_idle, context)
        await until(goes_on, 30)
        await world.work()

    assert waiting == ({"a": "none"}, {})
    assert states(await world.runs()) == ["success", "success"]
