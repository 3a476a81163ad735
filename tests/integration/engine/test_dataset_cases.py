"""The cases of dataset events and their queue, on a real Postgres."""

from itertools import product
from typing import Any

import pytest

from tests.integration.engine.world import World, utc
from tests.shapes import spec
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef, DatasetSpec
from tidegate.schemas.dag import DagSpec, ImportProblem, ParsedFile
from tidegate.schemas.message import PauseRequested
from tidegate.schemas.timetable.spec import Cron

A, B = DatasetRef("s://a"), DatasetRef("s://b")
NEVER = DatasetRef("s://never")
DAILY = Cron(("0 0 * * *",))


def waits(*others: DatasetRef, dag_id: str = "d", **facts: Any) -> DagSpec:
    """It waits for more than ever comes."""
    return spec("t!", dag_id=dag_id, schedule=AllOf((A, NEVER, *others)), **facts)


async def queue(world: World) -> list[tuple[str, str]]:
    sql = "SELECT target_dag_id, uri FROM dataset_dag_run_queue JOIN dataset ON dataset.id = dataset_id ORDER BY 1, 2"
    return [(row[0], row[1]) for row in await world.rows(sql)]


async def count(world: World, table: str) -> int:
    ((found,),) = await world.rows(f"SELECT count(*) FROM {table}")
    return int(found)


async def activity(world: World) -> dict[str, bool]:
    return {row[0]: row[1] for row in await world.rows("SELECT uri, is_active FROM dataset")}


async def test_a02_two_consumers_of_one_dataset_have_two_rows_of_one_event(world: World) -> None:
    await world.file(waits(), waits(dag_id="e"))

    await world.updated("s://a")

    assert (await count(world, "dataset_event"), await queue(world)) == (1, [("d", "s://a"), ("e", "s://a")])


async def test_a05_an_event_without_consumers_is_stored_and_queued_for_no_dag(world: World) -> None:
    await world.updated("s://a")

    assert (await count(world, "dataset_event"), await queue(world)) == (1, [])


async def test_a06_each_consumer_of_a_dataset_that_a_task_updates_gets_one_event(world: World) -> None:
    await world.file(spec("t!", schedule=A, limit=1), path="consumer.py")
    await world.file(DagSpec(dag_id="p", schedule=B, tasks=spec("t").tasks), path="producer.py")
    await world.rows("UPDATE dag_version SET spec = jsonb_set(spec, '{tasks,0,outlets}', '[\"s://a\"]') WHERE dag_id = 'p'")
    world.database.memory.graphs.clear()

    await world.updated("s://b")
    await world.work()
    await world.work()

    assert await world.rows("SELECT event_id FROM outbox WHERE kind = 'dataset-updated'") == [
        (f"p/{(await world.runs('p'))[0][0]}/t/s://a",)
    ]


async def test_a07_an_event_of_a_stale_consumer_is_queued(world: World) -> None:
    await world.file(waits())
    await world.file()

    await world.updated("s://a")

    assert await queue(world) == [("d", "s://a")]
    assert await world.rows("SELECT is_stale FROM dag") == [(True,)]


@pytest.mark.parametrize("is_there", [False, True])
async def test_a11_one_dataset_holds_while_a_row_is_there(world: World, is_there: bool) -> None:
    await world.file(spec("t!", schedule=A))

    await world.updated("s://a" if is_there else "s://b")

    assert bool(await world.runs()) is is_there


@pytest.mark.parametrize(("kind", "holds"), [(AllOf, all), (AnyOf, any)], ids=["all", "any"])
async def test_a12_all_or_any_of_datasets_hold_as_their_truth_table_says(world: World, kind: Any, holds: Any) -> None:
    uris = ("s://x", "s://y", "s://z")
    table = list(product((False, True), repeat=3))
    condition: Condition = kind(tuple(map(DatasetRef, uris)))

    found = []
    for number, statuses in enumerate(table):
        await world.file(spec("t!", dag_id=f"d{number}", schedule=condition), path=f"{number}.py")
        for uri in (uri for uri, is_there in zip(uris, statuses, strict=True) if is_there):
            await world.updated(uri)
        found.append(bool(await world.runs(f"d{number}")))

    assert found == [holds(statuses) for statuses in table]


async def test_a16_a_consumer_is_due_when_its_dataset_is_there_and_it_has_room(world: World) -> None:
    await world.file(spec("t", schedule=A, limit=1))
    before = await world.runs()

    await world.updated("s://a")
    due = len(await world.runs())
    await world.updated("s://a")
    full = len(await world.runs())
    await world.file(spec("t", schedule=A, limit=2))

    assert (before, due, full, len(await world.runs())) == ([], 1, 1, 2)


async def test_a21_a_paused_dag_has_no_run_by_time_until_it_is_unpaused(world: World) -> None:
    await world.file(spec("t!", timetable=DAILY))
    await world.tell(PauseRequested(dag_id="d", is_paused=True))

    await world.wait(days=1)
    paused = len(await world.runs())
    await world.tell(PauseRequested(dag_id="d", is_paused=False))
    await world.tick()

    assert (paused, len(await world.runs())) == (0, 1)


async def test_a22_a_file_that_never_parsed_has_no_runs_and_one_that_breaks_keeps_its_last_good_version(
    world: World,
) -> None:
    await world.file(spec("t!", timetable=DAILY), path="good.py")
    broken = ImportProblem(reason="it does not parse")
    for path in ("good.py", "never.py"):
        await world.tell(ParsedFile(path=path, digest="1", problem=broken))

    await world.wait(days=1)

    assert await world.rows("SELECT dag_id FROM dag_run") == [("d",)]


async def test_a23_a_run_to_come_is_not_due(world: World) -> None:
    await world.file(spec("t!", timetable=DAILY, start_date=utc(2024, 5, 9)))

    await world.wait(days=7)
    early = await world.runs()
    await world.wait(days=1)

    assert (early, len(await world.runs())) == ([], 1)


async def test_a27_what_comes_for_a_paused_consumer_is_stored_and_not_queued(world: World) -> None:
    await world.file(spec("t!", schedule=A))
    await world.tell(PauseRequested(dag_id="d", is_paused=True))

    await world.updated("s://a")

    assert (await count(world, "dataset_event"), await queue(world), await world.runs()) == (1, [], [])
    assert await world.outcomes() == {"the DAG was paused": 1}


async def test_a27_what_comes_for_a_stale_consumer_is_queued_and_starts_nothing_until_it_is_back(world: World) -> None:
    await world.file(spec("t!", schedule=A))
    await world.file()

    await world.updated("s://a")
    stale = (await queue(world), await world.runs())
    await world.file(spec("t!", schedule=A))

    assert (stale, len(await world.runs())) == (([("d", "s://a")], []), 1)


async def test_a28_a_dataset_that_no_dag_refers_to_any_more_is_inactive_and_stays(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((A, B))))
    await world.updated("s://a")
    before = await activity(world)

    await world.file(spec("t!", schedule=B))

    assert (before, await activity(world)) == ({"s://a": True, "s://b": True}, {"s://a": False, "s://b": True})
    assert await count(world, "dataset_event") == 1


async def test_a28_a_dataset_that_only_an_event_names_is_inactive_until_a_dag_waits_for_it(world: World) -> None:
    await world.updated("s://a")
    before = await activity(world)

    await world.file(spec("t!", schedule=A))

    assert (before, await activity(world)) == ({"s://a": False}, {"s://a": True})


async def test_a29_a_dataset_that_is_inactive_already_is_not_written_again(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((A, B))))
    await world.file(spec("t!", schedule=B))
    row = await world.rows("SELECT xmin::text FROM dataset WHERE uri = 's://a'")

    await world.file(spec("t!", "u!", schedule=B))

    assert await world.rows("SELECT xmin::text FROM dataset WHERE uri = 's://a'") == row


async def test_a33_what_is_said_of_a_dataset_is_kept_up_with_the_code(world: World) -> None:
    said = "SELECT name, extra FROM dataset WHERE uri = 's://a'"
    await world.file(spec("t!", schedule=A, datasets=(DatasetSpec("s://a", "flights", {"owner": "x"}),)))
    before = await world.rows(said)

    await world.file(spec("t!", schedule=A, datasets=(DatasetSpec("s://a", "all flights", {"owner": "y"}),)))

    assert (before, await world.rows(said)) == ([("flights", {"owner": "x"})], [("all flights", {"owner": "y"})])
