"""Any installation with waiting tasks: no task reported as blocked is admitted, and every other waiting one is reported."""

from random import Random
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.engine.world import World
from tidegate.handlers.explain.task import explain_task
from tidegate.handlers.explain.task_facts import load
from tidegate.schemas.dag import CommandTask, DagSpec
from tidegate.schemas.explain.gates import TaskExplanation
from tidegate.schemas.message import PauseRequested, RunRequested, TasksReady
from tidegate.schemas.queries import leases
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Job, Terms

POOLS = ("default_pool", "narrow", "nowhere")
WAITING = """
    SELECT run.dag_id, run.run_id, task.task_index FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id
    WHERE task.state IN ('none', 'scheduled', 'up_for_retry') AND task.pool = $1
"""
AT_WORK = """
    SELECT run.dag_id, run.run_id, task.task_index FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id
    WHERE task.state = 'queued'
"""


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_said_of_waiting_tasks_is_what_the_admission_does(world: World, seed: int) -> None:
    chance = Random(seed)
    terms = Terms(parallelism=chance.choice((0, 0, 7)), fair_after_s=1e9)
    job = Job(uuid4(), "here", 1, "test", terms)
    await installation(world, chance, job)

    for pool in chance.sample(POOLS, len(POOLS)):
        await world.database.run(leases.renew, job)  # Without it for some seconds, no daemon is at work.
        before = set(await world.rows(AT_WORK))
        said = dict([await why(world, *task, terms=terms) for task in await world.rows(WAITING, pool)])
        await admit(world, terms, pool)
        given = set(await world.rows(AT_WORK)) - before
        left = [await why(world, *task, terms=terms) for task in await world.rows(WAITING, pool)]

        assert [key for key in given if not OF_OTHERS.issuperset(closed(said[key]))] == []
        assert [key for key, page in left if page.state == "scheduled" and not closed(page)] == []


OF_OTHERS = frozenset({"priority"})
"""Held up by others in the queue, who may be passed over."""


def closed(page: TaskExplanation) -> list[str]:
    return [gate.name for gate in page.closed]


Key = tuple[Any, ...]


async def why(world: World, dag_id: str, run_id: str, index: int, *, terms: Terms) -> tuple[Key, TaskExplanation]:
    async def look(db: Db) -> TaskExplanation:
        return explain_task(await load(db, dag_id, run_id, index, terms))

    return (dag_id, run_id, index), await world.database.run(look)


async def installation(world: World, chance: Random, job: Job) -> None:
    """DAGs with any limits and several runs, some of whose tasks work and some of which are paused."""
    await world.database.run(leases.renew, job)
    await world.rows("INSERT INTO pool (name, slots) VALUES ('narrow', $1)", chance.randint(1, 5))
    await world.rows("UPDATE pool SET slots = $1 WHERE name = 'default_pool'", chance.randint(3, 12))
    specs = [dag(chance, f"d{number}") for number in range(4)]
    await world.file(*specs)
    for step in range(3):
        for spec in specs:
            await world.tell(RunRequested(dag_id=spec.dag_id, run_id=f"r{step}", conf={}))
        await work(world, chance, job.terms)
    for spec in chance.sample(specs, chance.randint(0, 2)):
        await world.tell(PauseRequested(dag_id=spec.dag_id, is_paused=True))


async def work(world: World, chance: Random, terms: Terms) -> None:
    """Some tasks begin, and some end."""
    for pool in POOLS if chance.random() < 0.6 else ():
        await admit(world, terms, pool)
    await world.submit()
    for attempt in await world.attempts():
        if chance.random() < 0.5:
            await world.finish(attempt, chance.choice(("succeeded", "failed")))


def dag(chance: Random, dag_id: str) -> DagSpec:
    tasks = [
        CommandTask(
            task_id=f"t{number}",
            upstream=tuple(f"t{above}" for above in range(number) if chance.random() < 0.15),
            argv=("true",),
            pool=chance.choice(POOLS),
            pool_slots=chance.choice((1, 1, 2, 3)),
            weight=chance.randint(1, 3),
            retries=chance.randint(0, 1),
            max_active_per_dag=chance.choice((None, None, 1, 2)),
            max_active_per_run=chance.choice((None, None, 1)),
        )
        for number in range(6)
    ]
    return DagSpec(dag_id=dag_id, tasks=tuple(tasks), max_active_tasks=chance.randint(1, 5), max_active_runs=3)


async def admit(world: World, terms: Terms, pool: str) -> None:
    """Until nothing more fits into the pool."""
    ready = TasksReady(pool=pool, limit=1000, parallelism=terms.parallelism, fair_after_s=terms.fair_after_s)
    while (await world.tell(ready)).effects:
        pass
