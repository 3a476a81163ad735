"""Tasks that wait for the slots of pools."""

from typing import Any

from tests.integration.engine.world import World, utc
from tidegate.schemas.dag import CommandTask, DagSpec
from tidegate.schemas.message import RunRequested


def command(task_id: str, *upstream: str, **facts: Any) -> CommandTask:
    return CommandTask(task_id=task_id, upstream=upstream, argv=("true",), **facts)


async def waiting(world: World, *specs: DagSpec, runs: int = 1) -> None:
    await world.file(*specs)
    for number in range(1, runs + 1):
        for spec in specs:
            date = utc(2024, 4, number)
            await world.tell(RunRequested(dag_id=spec.dag_id, run_id=f"r{number}", conf={}, logical_date=date))


def dag(dag_id: str, *tasks: CommandTask, **facts: Any) -> DagSpec:
    return DagSpec(dag_id=dag_id, tasks=tasks, **facts)


async def pool(world: World, name: str, slots: int) -> None:
    sql = "INSERT INTO pool (name, slots) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET slots = excluded.slots"
    await world.rows(sql, name, slots)


async def admitted(world: World) -> list[str]:
    """What has a slot, by DAG and task."""
    sql = """
        SELECT run.dag_id || '.' || task.task_id FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id
        WHERE task.state IN ('queued', 'running') ORDER BY 1
    """
    return [row[0] for row in await world.rows(sql)]
