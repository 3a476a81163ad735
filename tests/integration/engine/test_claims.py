"""Which attempts a daemon takes up."""

from uuid import uuid4

from tests.integration.engine.slots import command, dag, pool, waiting
from tests.integration.engine.world import World
from tidegate.schemas.queries import submissions


async def test_attempts_are_taken_up_in_the_order_in_which_they_were_admitted(world: World) -> None:
    await pool(world, "default_pool", 20)
    await waiting(world, dag("d", *(command(f"t{number:02}") for number in range(20))))
    await world.admit()

    claimed = await world.database.run(submissions.claim_intents, uuid4(), "here", "command", 15)

    assert [attempt.task_index for attempt in claimed] == list(range(15))
