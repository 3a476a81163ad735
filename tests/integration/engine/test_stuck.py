"""Attempts that are not submitted in time, as Postgres counts them."""

from tests.integration.engine.chains import clear, command, started
from tests.integration.engine.world import World
from tidegate.handlers.attempt_stuck import not_submitted
from tidegate.schemas.message import AttemptStuck
from tidegate.schemas.queries import submissions


async def stuck(world: World) -> list[tuple[str, str]]:
    """The sweep finds what is queued; (state, reason) of all attempts afterwards."""
    await world.admit()
    for id_ in await world.database.run(submissions.stuck, 0):
        await world.tell(AttemptStuck(submission_id=id_, queued_s=0))
    await world.submit()
    rows = await world.rows("SELECT state::text, reason FROM submission ORDER BY try_number")
    return [(row[0], row[1]) for row in rows]


async def test_an_attempt_is_queued_anew_twice_before_its_task_fails(world: World) -> None:
    await started(world, command("a"))

    attempts = [await stuck(world) for _ in range(3)]

    assert attempts[-1] == [("killed", not_submitted(number, 0)) for number in (1, 2, 3)]
    assert (await world.runs(), await world.tasks("r1")) == ([("r1", "failed")], {"a": "failed"})


async def test_each_try_is_queued_anew_twice(world: World) -> None:
    await started(world, command("a", retries=1, retry_delay_s=0.0))

    attempts = [await stuck(world) for _ in range(6)]

    assert attempts[-1] == [("killed", not_submitted(number, 0)) for number in range(1, 7)]
    assert await world.tasks("r1") == {"a": "failed"}


async def test_an_attempt_that_ran_makes_the_count_begin_anew(world: World) -> None:
    await started(world, command("a", retries=1, retry_delay_s=0.0))
    for _ in range(2):
        await stuck(world)
    await world.work("failed")

    tasks = [(await stuck(world), await world.tasks("r1"))[1] for _ in range(3)]

    assert tasks == [{"a": "scheduled"}, {"a": "scheduled"}, {"a": "failed"}]


async def test_a_cleared_task_that_had_run_is_queued_anew_twice(world: World) -> None:
    await started(world, command("a"))
    for _ in range(2):
        await stuck(world)
    await world.work()
    await clear(world)

    tasks = [(await stuck(world), await world.tasks("r1"))[1] for _ in range(3)]

    assert tasks == [{"a": "scheduled"}, {"a": "scheduled"}, {"a": "failed"}]


async def test_nothing_else_is_taken_for_stuck(world: World) -> None:
    await started(world, command("works"), command("waits", "works"))
    await world.admit()
    await world.submit()

    assert await world.database.run(submissions.stuck, 0) == []
