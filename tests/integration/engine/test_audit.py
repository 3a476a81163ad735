"""The audit of the ledger: clean over whatever happens to DAGs and events, and whatever is planted in it is named."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import anyio
import pytest

from tests.integration.engine.world import World
from tests.shapes import spec
from tidegate.daemon import audit, engine
from tidegate.daemon.audit import Report, audit_ledger
from tidegate.daemon.database import connect
from tidegate.schemas.condition import AllOf, AnyOf, DatasetRef, PatternRef
from tidegate.schemas.effect import Effect
from tidegate.schemas.message import DagDeleteRequested, PauseRequested
from tidegate.schemas.queries import audit as queries
from tidegate.schemas.queries.db import Db

A, B, C = DatasetRef("s://a"), DatasetRef("s://b"), DatasetRef("s://c")
LEFT = "the DAG is no longer scheduled on this dataset"
PAUSED = "the DAG was paused"
EXPIRED = "it expired before a run took it"

FIRST = "SELECT min(id) FROM dataset_event"
LAST = "SELECT max(id) FROM dataset_event"


async def look(world: World, most: int = 100) -> Report:
    return await audit_ledger(world.database.ask, most)


def counts(report: Report) -> Mapping[str, int]:
    return {each.reason or each.fate: each.count for each in report.fates}


def found(report: Report) -> list[tuple[str, str | None, str]]:
    return [(each.dag_id, each.uri, each.problem) for each in report.findings]


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


async def test_only_who_waited_when_an_event_came_is_due_a_fate(world: World) -> None:
    await world.updated("s://a")
    await world.file(spec("t!", schedule=AllOf((A, B))))
    await world.updated("s://a")
    await world.file(spec("t!", schedule=B))
    await world.updated("s://a")
    await world.file(spec("t!", schedule=AllOf((A, C))))
    await world.updated("s://a")

    report = await look(world)

    assert (report.events, report.due, report.wrong, counts(report)) == (4, 2, 0, {LEFT: 1, "pending": 1})


async def test_who_wants_the_history_is_due_it(world: World) -> None:
    await world.updated("s://a")
    world.clock.at += timedelta(hours=1)
    await world.updated("s://a")
    since = world.at - timedelta(minutes=1)

    await world.file(spec("t!", schedule=AllOf((A, B)), missed="all", start_date=since))
    await world.file(spec("t!", dag_id="all", schedule=AllOf((A, B)), missed="all"), path="all.py")
    report = await look(world)

    assert (report.due, report.wrong, counts(report)) == (3, 0, {"pending": 3})


async def test_who_comes_back_for_the_history_is_due_each_event_once(world: World) -> None:
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
    hold, held, perform = anyio.Event(), anyio.Event(), engine._perform

    async def slow(db: Db, effects: Sequence[Effect]) -> None:
        await perform(db, effects)
        held.set()
        await hold.wait()

    async with connect(dsn) as other, anyio.create_task_group() as tg:
        elsewhere = World(other, world.at)
        acts = {
            "the event": lambda: elsewhere.updated("s://a"),
            "the schedule": lambda: elsewhere.file(spec("t!", schedule=B)),
        }
        with monkeypatch.context() as patch:
            patch.setattr(engine, "_perform", slow)
            tg.start_soon(acts.pop(first))
            await held.wait()
        (then,) = acts.values()
        tg.start_soon(then)
        await anyio.sleep(0.2)
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
    monkeypatch.setattr(audit, "EVENTS_AT_ONCE", 4)
    monkeypatch.setattr(audit, "PAIRS_AT_ONCE", 6)
    monkeypatch.setattr(queries, "ROWS_AT_ONCE", 3)
    await world.rows("DELETE FROM dataset_dag_run_queue WHERE target_dag_id = 'd2'")

    report = await look(world, 4)

    assert (report.events, report.due, counts(report)) == (14, 42, {"pending": 28, "consumed alone": 7})
    assert (report.wrong, [each.event for each in report.findings]) == (7, sorted(each.event for each in report.findings))
    assert len({each.event for each in report.findings}) == 4


# What is planted --------------------------------------------------------------------------------------------------

PLANTED: Mapping[str, tuple[str, str]] = {
    "lost from the queue": (
        "DELETE FROM dataset_dag_run_queue WHERE target_dag_id = 'waits'",
        "it is neither pending nor consumed nor discarded",
    ),
    "lost from a run": (
        "DELETE FROM dagrun_dataset_event WHERE dag_id = 'runs'",
        "it is neither pending nor consumed nor discarded",
    ),
    "lost from the discarded": (
        "DELETE FROM discarded_dataset_event WHERE dag_id = 'paused'",
        "it is neither pending nor consumed nor discarded",
    ),
    "consumed and pending": (
        f"""INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id)
            SELECT 'runs', dataset_id, id FROM dataset_event WHERE id = ({FIRST})""",
        "it is consumed by run {run}, and it is pending",
    ),
    "consumed and discarded": (
        f"INSERT INTO discarded_dataset_event (dag_id, dataset_event_id, reason) SELECT 'runs', ({FIRST}), 'why'",
        "it is consumed by run {run}, and it is discarded: why",
    ),
    "discarded and pending": (
        f"INSERT INTO discarded_dataset_event (dag_id, dataset_event_id, reason) SELECT 'waits', ({FIRST}), 'why'",
        "it is discarded: why, and it is pending",
    ),
    "pending for who did not wait": (
        f"""INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id)
            SELECT 'other', dataset_id, id FROM dataset_event WHERE id = ({FIRST})""",
        "it is pending, but the DAG did not wait for its dataset when it came",
    ),
    "consumed by who did not wait": (
        f"""INSERT INTO dagrun_dataset_event (dag_id, dataset_event_id, dag_run_id)
            SELECT 'other', ({FIRST}), id FROM dag_run WHERE dag_id = 'other'""",
        "it is consumed by run {other}, but the DAG did not wait for its dataset when it came",
    ),
    "discarded for who did not wait": (
        f"INSERT INTO discarded_dataset_event (dag_id, dataset_event_id, reason) SELECT 'other', ({FIRST}), 'why'",
        "it is discarded: why, but the DAG did not wait for its dataset when it came",
    ),
    "consumed by another DAG's run": (
        "UPDATE dagrun_dataset_event SET dag_run_id = (SELECT id FROM dag_run WHERE dag_id = 'other') WHERE dag_id = 'runs'",
        "it is consumed by run {other}, which is one of other",
    ),
    "consumed by no run": (
        "UPDATE dagrun_dataset_event SET dag_run_id = 0 WHERE dag_id = 'runs'",
        "it is consumed by run 0, which is not there",
    ),
    "pending as of another dataset": (
        """UPDATE dataset_dag_run_queue SET dataset_id = (SELECT id FROM dataset WHERE uri = 's://b')
           WHERE target_dag_id = 'waits'""",
        "it is pending as an event of another dataset",
    ),
    "discarded without a reason": (
        "UPDATE discarded_dataset_event SET reason = '' WHERE dag_id = 'paused'",
        "it is discarded without a reason",
    ),
    "pending for a DAG that is not there": (
        f"""INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id)
            SELECT 'nobody', dataset_id, id FROM dataset_event WHERE id = ({FIRST})""",
        "it is pending, but there is no such DAG",
    ),
    "pending, but not in the ledger": (
        """INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id)
           SELECT 'waits', id, 9999 FROM dataset WHERE uri = 's://a'""",
        "it is pending, but it is not in the ledger",
    ),
    "consumed, but not in the ledger": (
        f"DELETE FROM dataset_event WHERE id = ({LAST})",
        "it is consumed by run {other}, but it is not in the ledger",
    ),
}
"""What is done to the tables, and what the audit says of it."""


@pytest.mark.parametrize("planted", PLANTED)
async def test_what_is_planted_is_named(world: World, planted: str) -> None:
    await world.file(
        spec("t!", dag_id="runs", schedule=A),
        spec("t!", dag_id="waits", schedule=AllOf((A, B))),
        spec("t!", dag_id="paused", schedule=A),
        spec("t!", dag_id="other", schedule=AnyOf((B, C))),
    )
    await world.tell(PauseRequested(dag_id="paused", is_paused=True))
    await world.updated("s://a")
    await world.updated("s://c")
    clean = await look(world)
    damage, sentence = PLANTED[planted]

    await world.rows(damage)
    report = await look(world)

    runs = {"run": (await world.runs("runs"))[0][0], "other": (await world.runs("other"))[0][0]}
    assert (clean.due, clean.wrong) == (4, 0)
    assert sentence.format(**runs) in [problem for _, _, problem in found(report)]
    assert {(each.dag_id, each.event_id) for each in report.findings} == {
        (each.dag_id, each.event_id) for each in report.findings if each.problem == sentence.format(**runs)
    }


async def test_a_finding_says_which_event_as_its_producer_knows_it(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((A, B))))
    await world.updated("s://a")
    await world.rows("DELETE FROM dataset_dag_run_queue")

    (finding,) = (await look(world)).findings

    ((id_, source, event_id),) = await world.rows("SELECT id, source, event_id FROM dataset_event")
    assert (finding.dag_id, finding.event, finding.uri, finding.source, finding.event_id) == ("d", id_, "s://a", source, event_id)
