"""Runs of a few commands, and what becomes of them."""

from typing import Any

from tests.integration.engine.world import World, utc
from tidegate.schemas.dag import CommandTask, DagSpec, TaskSpec
from tidegate.schemas.message import ClearRequested, RunRequested


def command(task_id: str, *upstream: str, **facts: Any) -> CommandTask:
    return CommandTask(task_id=task_id, upstream=upstream, argv=("true",), **facts)


CHAIN = (command("a"), command("b", "a"), command("c", "b"))


async def started(world: World, *tasks: TaskSpec, runs: int = 1, **facts: Any) -> None:
    """A DAG, and runs r1, r2, … of it."""
    await world.file(DagSpec(dag_id="d", tasks=tasks or CHAIN, **facts))
    for number in range(1, runs + 1):
        await world.tell(RunRequested(dag_id="d", run_id=f"r{number}", conf={}, logical_date=utc(2024, 4, number)))
    await world.reconsider()


async def clear(world: World, run_id: str | None = "r1", **facts: Any) -> None:
    await world.tell(ClearRequested(dag_id="d", run_id=run_id, **facts))
    await world.tick()


async def moves(world: World, run_id: str = "r1") -> list[str]:
    sql = """
        SELECT log.state::text FROM run_state_log AS log JOIN dag_run AS run ON run.id = log.dag_run_id
        WHERE run.run_id = $1 ORDER BY log.seq
    """
    return [row[0] for row in await world.rows(sql, run_id)]
