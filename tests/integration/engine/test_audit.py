"""The audit of the ledger: clean over whatever happens to DAGs and events."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import anyio
import pytest

from tests.integration.engine.ledger import A, B, C, look
from tests.integration.engine.world import World
from tests.shapes import spec
from tests.waiting import until_at_locks
from tidegate.daemon import audit
from tidegate.daemon.audit import Report
from tidegate.daemon.perform import perform
from tidegate.daemon.postgres.database import connect
from tidegate.schemas.conditions.condition import AllOf, DatasetRef, PatternRef
from tidegate.schemas.effect import Effect
from tidegate.schemas.message import DagDeleteRequested, PauseRequested
from tidegate.schemas.queries import audit as queries
from tidegate.schemas.queries.unit_of_work import UnitOfWork

LEFT = "the DAG is no longer scheduled on this dataset"
PAUSED = "the DAG was paused"
EXPIRED = "it expired before a run consumed it"


def counts(report: Report) -> Mapping[str, int]:
    return {each.reason or each.outcome: each.count for each in report.outcomes}


# What is right ----------------------------------------------------------------------------------------------------


async def test_every_sort_of_fate_is_counted(world: World) -> None:
    await world.file(
        spec("t!", dag_id="alone", schedule=A),
        spec("t!", dag_id="both", schedule=AllOf((A, B))),
        spec("t!", dag_id="brief", schedule=AllOf((DatasetRef("s://a", expire_after_s=60), B))),
        spec("t!", dag_id="paused", schedule=A),
        spec("t!", dag_id="waits", schedule=AllOf((A, C))),
    )
    await world.tell(PauseRequested(dag_id="paused", is_paused=True))
    await world.updated("s://a")
    await world.wait(minutes=2)
    await world.updated("s://b")

    report = await look(world)

    assert counts(report) == {
        "consumed alone": 1,
        "consumed with others": 2,
        "pending": 2,
        EXPIRED: 1,
        PAUSED: 1,
    }
    assert (report.events, report.due, report.unproven, report.wrong, report.findings) == (2, 7, 0, 0, [])


async def test_only_a_dag_that_waited_when_an_event_came_is_due_an_outcome(world: World) -> None:
    await world.updated("s://a")
    await world.file(spec("t!", schedule=AllOf((A, B))))
    await world.updated("s://a")
    await world.file(spec("t!", schedule=B))
    await world.updated("s://a")
    await world.file(spec("t!", schedule=AllOf((A, C))))
    await world.updated("s://a")

    report = await look(world)

    assert (report.events, report.due, report.wrong, counts(report)) == (4, 2, 0, {LEFT: 1, "pending": 1})


async def test_a_dag_that_wants_the_history_is_due_it(world: World) -> None:
    await world.updated("s://a")
    world.clock.at += timedelta(hours=1)
    await world.updated("s://a")
    since = world.at - timedelta(minutes=1)

    await world.file(spec("t!", schedule=AllOf((A, B)), missed="all", start_date=since))
    await world.file(spec("t!", dag_id="all", schedule=AllOf((A, B)), missed="all"), path="all.py")
    report = await look(world)

    assert (report.due, report.wrong, counts(report)) == (3, 0, {"pending": 3})


async def test_a_dag_that_comes_back_for_the_history_is_due_each_event_once(world: World) -> None:
    both = spec("t!", schedule=AllOf((A, B)), missed="all")
    await world.file(both)
    await world.updated("s://a")
    await world.file(spec("t!", schedule=B, missed="all"))
    await world.updated("s://a")

    await world.file(both)
    report = await look(world)

    assert (report.due, report.wrong, counts(report)) == (2, 0, {LEFT: 1, "pending": 1})


async def test_what_a_pattern_matches_is_due_from_its_first_event_on(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((PatternRef("s://t/*"), B))))

    for uri in ("s://t/1", "s://t/2", "s://u/1", "s://t/1"):
        await world.updated(uri)

    report = await look(world)
    assert (report.events, report.due, report.wrong) == (4, 3, 0)


async def test_a_dag_that_is_deleted_is_due_nothing(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((A, B))))
    await world.updated("s://a")
    await world.file()

    await world.tell(DagDeleteRequested(dag_id="d"))
    report = await look(world)

    assert (report.events, report.due, report.wrong) == (1, 0, 0)


@pytest.mark.parametrize("first", ["the event", "the schedule"])
async def test_an_event_that_is_written_while_the_schedule_changes_is_due_as_it_saw_it(
    world: World, dsn: str, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Both are under way at once; which began or ended first is not what decides, but which consumers the event saw."""
    await world.file(spec("t!", schedule=AllOf((A, B))))
    hold, held = anyio.Event(), anyio.Event()

    async def slow(unit: UnitOfWork, effects: Sequence[Effect]) -> None:
        await perform(unit, effects)
        held.set()
        await hold.wait()

    async with connect(dsn) as other, anyio.create_task_group() as tg:
        elsewhere = World(other, world.at)
        acts = {
            "the event": lambda: elsewhere.updated("s://a"),
            "the schedule": lambda: elsewhere.file(spec("t!", schedule=B)),
        }
        with monkeypatch.context() as patch:
            patch.setattr("tidegate.daemon.engine.perform", slow)
            tg.start_soon(acts.pop(first))
            await held.wait()
        (then,) = acts.values()
        tg.start_soon(then)
        await until_at_locks(world.database, 1)
        hold.set()

    report = await look(world)
    assert (report.due, report.wrong, counts(report)) == (1, 0, {LEFT: 1})


async def test_an_event_from_before_subscriptions_were_recorded_is_counted_and_not_judged(world: World) -> None:
    await world.file(spec("t!", schedule=A))
    await world.updated("s://a")
    await world.updated("s://a")
    await world.rows("UPDATE dataset_event SET arrival_id = NULL WHERE id = (SELECT min(id) FROM dataset_event)")

    report = await look(world)

    assert (report.events, report.unproven, report.due, report.wrong) == (2, 1, 1, 0)


async def test_a_long_ledger_is_read_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.file(*(spec("t!", dag_id=f"d{n}", schedule=AllOf((A, B))) for n in range(5)), spec("t!", dag_id="e", schedule=C))
    for uri in ["s://a"] * 7 + ["s://c"] * 7:
        await world.updated(uri)
    monkeypatch.setattr(audit, "FIRST_EVENTS", 4)
    monkeypatch.setattr(audit, "PAIRS_AT_ONCE", 6)
    monkeypatch.setattr(queries, "ROWS_AT_ONCE", 3)
    await world.rows("DELETE FROM dataset_dag_run_queue WHERE target_dag_id = 'd2'")

    report = await look(world, 4)

    assert (report.events, report.due, counts(report)) == (14, 42, {"pending": 28, "consumed alone": 7})
    assert (report.wrong, [each.event for each in report.findings]) == (7, sorted(each.event for each in report.findings))
    assert len({each.event for each in report.findings}) == 4
