"""What a task says about its data, from the end of its attempt to the runs of the consumers."""

from datetime import timedelta
from typing import Any

import msgspec

from tests.integration.engine.chains import command, started
from tests.integration.engine.world import World
from tests.shapes import A, spec
from tidegate.schemas.queries import datasets, sources
from tidegate.schemas.wire.event import DatasetUpdated, Producer, encode

OUTBOX = "SELECT key, event_id, payload FROM outbox WHERE kind = 'dataset-updated' ORDER BY id"


async def relay(world: World) -> None:
    """What the outbox has about datasets arrives, as the relay and the intake bring it."""
    for _, event_id, payload in await world.rows(OUTBOX):
        await world.tell(msgspec.json.decode(payload, type=DatasetUpdated), id_=event_id, source="tidegate")


async def test_the_end_of_an_attempt_publishes_what_it_says_exactly_once(world: World) -> None:
    await started(world, command("a", outlets=("s://a",)))
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()
    facts = {"outlets": {"s://a": {"rows": 12}}, "events": (DatasetUpdated(uri="s://b"),)}

    for _ in range(2):
        await world.finish(attempt, **facts)

    origin = {"tidegate": {"dag_id": "d", "run_id": "r1", "task_id": "a"}}
    assert await world.rows(OUTBOX) == [
        ("s://a", "d/r1/a/s://a", encode(DatasetUpdated(uri="s://a", extra={"rows": 12, **origin}))),
        ("s://b", f"{attempt}/0", encode(DatasetUpdated(uri="s://b", extra=origin))),
    ]


async def test_a_filter_reads_what_a_task_says_and_the_tasks_of_its_consumer_read_who_said_it(world: World) -> None:
    some = msgspec.structs.replace(A, where="rows > 0 and tidegate.task_id == 'm' and tidegate.map_index == 1")
    await world.file(spec("t", dag_id="consumer", schedule=some), path="consumer.py")
    await started(world, command("list"), command("m", "list", over="list", outlets=("s://a",)))
    await world.work(result=["x", "y"])
    await world.admit()
    await world.submit()
    none, many = await world.attempts()

    await world.finish(none, outlets={"s://a": {"rows": 0}})
    await world.finish(many, outlets={"s://a": {"rows": 12}})
    for _ in range(2):
        await relay(world)

    assert await world.outcomes("consumer") == {
        "consumed": 1,
        "no filter of the DAG accepts it": 1,
        "no filter of the DAG accepts it: its extra has no `rows`": 1,
    }
    ((run,),) = await world.rows("SELECT id FROM dag_run WHERE dag_id = 'consumer'")
    (event,) = (await world.database.run(sources.of_runs, dag_run_ids=[run]))[run].context.events
    assert (event.extra["rows"], event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index) == (
        12,
        "d",
        "r1",
        "m",
        1,
    )


async def test_many_events_reach_tasks_with_their_producers_too(world: World) -> None:
    signed = {"tidegate": {"dag_id": "p", "run_id": "r", "task_id": "t"}}
    await world.file(spec("t", schedule=A))
    await world.tell(DatasetUpdated(uri="s://a", extra=signed), id_="e", source="tidegate")
    ((run,),) = await world.rows("SELECT id FROM dag_run")

    (ids,) = await world.database.run(sources.event_pages, dag_run_id=run)
    (event,) = await world.database.run(sources.page_of_events, ids)

    assert (event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index) == ("p", "r", "t", None)


async def test_only_events_of_tidegate_have_a_producer(world: World) -> None:
    signed: dict[str, Any] = {"tidegate": {"dag_id": "p", "run_id": "r", "task_id": "t", "map_index": 3}}
    events: list[tuple[str, str, dict[str, Any]]] = [
        ("importer", "1", signed),
        ("tidegate", "2", {"tidegate": {"dag_id": "p"}}),
        ("tidegate", "3", {"tidegate": {**signed["tidegate"], "map_index": 1e99}}),
        ("tidegate", "4", {}),
        ("tidegate", "5", signed),
    ]
    for source, id_, extra in events:
        await world.tell(DatasetUpdated(uri="s://a", extra=extra), id_=id_, source=source)

    rows = await world.database.run(datasets.events, "s://a", None, 10)

    producer = Producer(dag_id="p", run_id="r", task_id="t", map_index=3)
    assert [row.producer for row in rows] == [producer, None, None, None, None]


async def test_a_producer_is_kept_with_its_event_beyond_the_retention(world: World) -> None:
    signed = {"tidegate": {"dag_id": "p", "run_id": "r", "task_id": "t"}}
    await world.file(spec("t", schedule=A))
    await world.tell(DatasetUpdated(uri="s://a", extra=signed), id_="e", source="tidegate")
    await world.rows("SELECT make_ledger_month(2001, 2002), make_ledger_month(2002, 2003), begin_ledger_month(2001)")

    retired = await world.rows("SELECT is_now::text, staying FROM retire_ledger_month(0, 2001, $1, 10)", world.at + timedelta(1))

    (row,) = await world.database.run(datasets.events, "s://a", None, 10)
    assert (retired, row.producer) == ([("thinned", 1)], Producer(dag_id="p", run_id="r", task_id="t"))


async def test_an_event_that_the_former_version_recorded_has_no_producer(world: World) -> None:
    """It writes the columns that it knows, beside this version."""
    await world.updated("s://a")
    await world.rows(
        "INSERT INTO dataset_event (dataset_id, source, event_id, extra, occurred_at)"
        " SELECT id, 'tidegate', 'old', '{}', now() FROM dataset"
    )

    rows = await world.database.run(datasets.events, "s://a", None, 10)

    assert (rows[0].id, rows[0].producer) == ("old", None)
