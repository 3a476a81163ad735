"""Tasks that only stand for something."""

from tests.integration.engine.slots import waiting
from tests.integration.engine.world import World
from tidegate.schemas.dag import DagSpec, EmptyTask

STATES = "SELECT task_id, state::text, try_number FROM task_instance ORDER BY task_index"


async def test_r24_an_empty_task_succeeds_without_an_attempt(world: World) -> None:
    await waiting(world, DagSpec(dag_id="d", tasks=(EmptyTask(task_id="a"), EmptyTask(task_id="b", upstream=("a",)))))

    assert [tuple(row) for row in await world.rows(STATES)] == [("a", "success", 0), ("b", "success", 0)]
    assert [tuple(row) for row in await world.rows("SELECT state::text FROM dag_run")] == [("success",)]
    assert await world.rows("SELECT FROM submission") == []
