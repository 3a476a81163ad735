"""Which rows come first where a statement reads only some, and the order of lists."""

from uuid import UUID

import pytest

from tests.integration.engine.chains import command, started
from tests.integration.engine.slots import dag, pool, waiting
from tests.integration.engine.world import World, utc
from tidegate.schemas.conditions.condition import AllOf, DatasetRef
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.queries import dag_pages, dags, dataset_pages, datasets, leases, pools, runs
from tidegate.schemas.state import TaskState


async def test_the_previous_run_is_the_one_just_before(world: World) -> None:
    await started(world, command("a"), runs=3)
    ids = [id_ for (id_,) in await world.rows("SELECT id FROM dag_run ORDER BY order_at")]
    for id_, state in zip(ids, ("success", "failed", "none"), strict=True):
        await world.rows("UPDATE task_instance SET state = $2::text::task_state WHERE dag_run_id = $1", id_, state)

    found = await world.database.run(runs.previous, ids)

    assert {id_: dict(before.states or {}) for id_, before in found.items()} == {
        ids[1]: {"a": TaskState.SUCCESS},
        ids[2]: {"a": TaskState.FAILED},
    }


async def test_of_the_dates_with_a_run_the_first_are_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dags, "MAX_RUN_DATES", 2)
    await started(world, command("a"), runs=4)

    found = await world.database.run(dags.run_dates, {"d": utc(2024, 4, 2)})

    assert found == {"d": frozenset({utc(2024, 4, 2), utc(2024, 4, 3)})}


async def test_the_runs_of_a_request_come_by_id(world: World) -> None:
    await started(world, command("a"), runs=3)
    ids = [id_ for (id_,) in await world.rows("SELECT id FROM dag_run ORDER BY id")]

    assert await world.database.run(runs.matching, "d", None, None, None) == ids


async def test_the_pool_with_the_longest_waiting_task_comes_first(world: World) -> None:
    """Pool a has the task that waits longest, beside one that waits for a short time."""
    for name in ("a", "b", "c"):
        await pool(world, name, 1)
    tasks = {"a1": "a", "a2": "a", "b": "b", "c": "c", "none": "gone"}
    await waiting(world, dag("d", *(command(id_, pool=name) for id_, name in tasks.items())))
    for id_, minutes in {"a1": 60, "a2": 1, "b": 10, "c": 20}.items():
        sql = "UPDATE task_instance SET scheduled_at = now() - make_interval(mins => $2) WHERE task_id = $1"
        await world.rows(sql, id_, minutes)

    assert await world.database.run(pools.in_demand) == ["a", "c", "b"]


async def test_pools_that_lack_and_pools_that_are_narrow_are_listed_by_name(world: World) -> None:
    for name in ("x", "y", "z"):
        await pool(world, name, 1)
    names = ("n1", "n2", "n3", "x", "y", "z")
    await waiting(world, dag("d", *(command(f"t{name}", pool=name, pool_slots=2) for name in names)))

    missing, narrow = await world.database.run(pools.missing), await world.database.run(pools.narrow)

    assert (list(missing), [found.name for found in narrow]) == (["n1", "n2", "n3"], ["x", "y", "z"])


async def test_a_pool_is_narrow_by_the_tasks_that_wait_longest_for_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "COUNTED", 1)
    await pool(world, "x", 1)
    await waiting(world, dag("d", command("old", pool="x", pool_slots=2), command("new", pool="x")))
    await world.rows("UPDATE task_instance SET scheduled_at = scheduled_at - interval '1 h' WHERE task_id = 'old'")

    assert [found.name for found in await world.database.run(pools.narrow)] == ["x"]


async def test_daemons_are_listed_oldest_first(world: World) -> None:
    hosts = ("one", "two", "three")
    for age, host in zip((3, 2, 1), hosts, strict=True):
        sql = """
            INSERT INTO job (id, host, pid, version, settings, started_at)
            VALUES ($1, $2, 7, 'test', '{"lease_ttl_s": 3600}', now() - make_interval(hours => $3))
        """
        await world.rows(sql, UUID(int=age), host, age)

    assert [daemon.host for daemon in await world.database.run(leases.live)] == [*hosts]


URIS = ("s://a", "s://b", "s://c", "s://d")


async def with_datasets(world: World) -> None:
    """Datasets that a DAG each produces and another one consumes, with two events each."""
    names = tuple(uri[-1] for uri in URIS)
    producers = [DagSpec(dag_id=f"from_{name}", tasks=(command("t", outlets=URIS),)) for name in names]
    consumers = [
        DagSpec(dag_id=f"of_{name}", tasks=(command("t"),), schedule=AllOf(tuple(map(DatasetRef, URIS)))) for name in names
    ]
    await world.file(*producers, *consumers)
    for _ in range(2):
        await world.updated("s://a")


async def test_pages_of_datasets_come_by_uri(world: World) -> None:
    await with_datasets(world)
    run = world.database.run

    assert [line.uri for line in await run(dataset_pages.list_lines, None, "s://a", 2)] == ["s://b", "s://c"]
    assert [row.uri for row in await run(datasets.list_datasets, None, 2, "s://a")] == ["s://b", "s://c"]
    assert await run(dataset_pages.search, "s:", 2) == ["s://a", "s://b"]
    assert await run(dataset_pages.first, 2) == ["s://a", "s://b"]


async def test_the_dags_of_a_dataset_come_by_id(world: World) -> None:
    await with_datasets(world)

    producers = await world.database.run(dataset_pages.list_producers, "s://a", 2)
    consumers = await world.database.run(dataset_pages.list_consumers, "s://a", 2)

    assert [row.dag_id for row in producers] == ["from_a", "from_b"]
    assert [row.dag_id for row in consumers] == ["of_a", "of_b"]


async def test_the_events_of_a_dataset_come_newest_first(world: World) -> None:
    await with_datasets(world)
    await world.updated("s://a")
    ids = [id_ for (id_,) in await world.rows("SELECT id FROM dataset_event ORDER BY id DESC")]

    assert [event.number for event in await world.database.run(datasets.events, "s://a", None, 2)] == ids[:2]


async def test_pending_events_are_counted_of_each_dataset(world: World) -> None:
    """The search steps from each dataset to the next one, and passes over none."""
    await with_datasets(world)
    for uri in URIS[1:3]:
        await world.updated(uri)

    counts = await world.database.run(datasets.pending_counts, "of_a")

    assert [(found.uri, found.events) for found in counts] == [("s://a", 2), ("s://b", 1), ("s://c", 1)]


async def test_the_last_runs_of_a_dag_come_in_the_order_of_its_grid(world: World) -> None:
    await started(world, command("a"), runs=3)

    found = await world.database.run(dag_pages.last_runs, ["d"], 2)

    assert [run.run_id for run in found["d"]] == ["r2", "r3"]


async def test_dags_and_faulty_files_come_by_name(world: World) -> None:
    await world.file(*(DagSpec(dag_id=id_, tasks=(command("t"),)) for id_ in "abc"))
    for path in ("a.py", "b.py", "c.py"):
        await world.rows("INSERT INTO dag_file (path, parse_duration_s) VALUES ($1, 0)", path)
        await world.rows("INSERT INTO import_error (path, reason, at) VALUES ($1, 'a fault', now())", path)

    assert await world.database.run(dag_pages.list_ids, 2) == ["a", "b"]
    assert [row.path for row in await world.database.run(dag_pages.list_import_errors, None, "a.py", 2)] == ["b.py", "c.py"]
