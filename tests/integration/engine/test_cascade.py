"""A cascade: what consumed the outlets of rewritten runs runs again, stage by stage, as a serial oracle would do it."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from tests.integration.engine.chains import command
from tests.integration.engine.test_backfills import act, counts_agree, created, daily, day, lagging, run_of, settle, state_of
from tests.integration.engine.world import World, utc
from tidegate.daemon.read_model.backfill import read_backfill_page
from tidegate.daemon.settings import Settings
from tidegate.schemas.backfill import Outlets, Reprocess
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef
from tidegate.schemas.dag import CommandTask, DagSpec
from tidegate.schemas.message import (
    BackfillAction,
    BackfillChanged,
    BackfillRequested,
    ClearRequested,
    DagDeleteRequested,
    PauseRequested,
    ReleaseRequested,
    RunEndRequested,
)
from tidegate.schemas.queries import backfills, facts, holds
from tidegate.schemas.state import RunState
from tidegate.schemas.wire.event import DatasetUpdated

CASCADING: dict[str, Any] = {"outlets": Outlets.CASCADE, "reprocess": Reprocess.COMPLETED}
AGAIN: dict[str, Any] = {**CASCADING, "limits": {"max_active_runs": 3}}


def work_of(*outlets: str) -> CommandTask:
    return CommandTask(task_id="work", argv=("true",), outlets=outlets)


def consumer(dag_id: str, inputs: list[str], *outlets: str) -> DagSpec:
    refs = [DatasetRef(f"s://{name}") for name in inputs]
    schedule: Condition = refs[0] if len(refs) == 1 else AnyOf(tuple(refs))
    return DagSpec(dag_id=dag_id, tasks=(work_of(*outlets),), schedule=schedule, max_active_runs=100)


async def relay(world: World) -> None:
    """The outbox is published, and what consumers get is read."""
    sql = "DELETE FROM outbox RETURNING kind, event_id, payload"
    for kind, event_id, payload in sorted(await world.rows(sql), key=lambda row: row[1]):
        if kind == "dataset-updated":
            await world.tell(msgspec.json.decode(payload, type=DatasetUpdated), id_=event_id, source="tidegate")


async def run_all(
    world: World, failing: frozenset[str] = frozenset(), ends: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> None:
    """Until nothing waits: all tasks end, some of them with facts of `ends`, and consumers get their events."""
    while True:
        world.clock.at += timedelta(seconds=1)
        await settle(world)
        await world.admit()
        await world.submit()
        attempts = await world.attempts()
        if not attempts and not await world.rows("SELECT FROM outbox WHERE kind = 'dataset-updated'"):
            return
        for attempt in attempts:
            ((run_id, task_id, _),) = await world.rows(RUN_OF, attempt)
            await world.finish(attempt, "failed" if failing & {run_id, task_id} else "succeeded", **ends.get(task_id, {}))
        await relay(world)


RUN_OF = """
    SELECT run.run_id, task.task_id, run.dag_id FROM submission
    JOIN dag_run AS run ON run.id = dag_run_id
    JOIN task_instance AS task USING (dag_run_id, task_index)
    WHERE submission_id = $1
"""
TRIES = """
    SELECT run.dag_id || ' ' || run.run_id, task.try_number FROM task_instance AS task JOIN dag_run AS run ON run.id = dag_run_id
"""
CONSUMED = """
    SELECT
        consumer.dag_id || ' ' || consumer.run_id,
        event.extra -> 'tidegate' ->> 'dag_id', event.extra -> 'tidegate' ->> 'run_id'
    FROM dagrun_dataset_event AS taken JOIN dataset_event AS event ON event.id = taken.dataset_event_id
    JOIN dag_run AS consumer ON consumer.id = taken.dag_run_id
"""

TOO_EARLY = """
    SELECT taker.dag_id, taker.run_id FROM dag_run AS taker
    JOIN dagrun_dataset_event AS taken ON taken.dag_run_id = taker.id
    JOIN dataset_event AS event ON event.id = taken.dataset_event_id
    JOIN dag_run AS producer
        ON (producer.dag_id, producer.run_id) = (event.extra -> 'tidegate' ->> 'dag_id', event.extra -> 'tidegate' ->> 'run_id')
    WHERE taker.backfill_id = $1 AND producer.backfill_id = $1 AND taker.start_date < producer.end_date
"""
"""Runs that ran again before a run whose events they consumed had ended."""


async def tries(world: World) -> Mapping[str, int]:
    return {row[0]: row[1] for row in await world.rows(TRIES)}


async def test_consumers_of_rewritten_runs_run_again_and_no_others(world: World) -> None:
    await world.file(
        daily(work_of("s://a")), consumer("b", ["a"], "s://b"), consumer("c", ["b"]), consumer("x", ["other"], "s://b")
    )
    await created(world, 1, 3, limits={"max_active_runs": 1})
    await run_all(world)
    before = await tries(world)
    assert len(before) == 9

    id_ = await created(world, 2, 4, **AGAIN)
    await run_all(world)

    again = {name for name, number in (await tries(world)).items() if number > before.get(name, number)}
    assert {name.split()[0] for name in again} == {"d", "b", "c"}
    assert len(again) == 6
    assert len(await tries(world)) == 12  # the new date has new consumers, which run once
    assert await state_of(world, id_) == "success"
    assert await world.rows("SELECT dates, succeeded, stage FROM backfill WHERE id = $1", id_) == [(7, 7, 2)]
    await counts_agree(world)


async def test_consumers_of_single_instances_run_again(world: World) -> None:
    """An instance that gives an outlet an extra updates it by itself."""
    load = command("load", "list", over="list", outlets=("s://a",))
    await world.file(daily(command("list"), load), msgspec.structs.replace(consumer("b", ["a"]), mode="each"))
    ends: dict[str, dict[str, Any]] = {"list": {"result": [1, 2]}, "load": {"outlets": {"s://a": {"rows": 3}}}}
    await created(world, 1, 1)
    await run_all(world, ends=ends)

    await created(world, 1, 1, **AGAIN)
    await run_all(world, ends=ends)

    assert [number for name, number in (await tries(world)).items() if name.startswith("b ")] == [2, 2, 2]


async def test_consumers_of_failed_runs_stay_as_they_are(world: World) -> None:
    await world.file(daily(work_of("s://a")), consumer("b", ["a"]))
    await created(world, 1, 2, limits={"max_active_runs": 1})
    await run_all(world)

    id_ = await created(world, 1, 2, **AGAIN)
    await run_all(world, frozenset({run_of(1)}))

    assert await state_of(world, id_) == "failed"
    found = await world.rows("SELECT dag_id, count(*) FROM dag_run WHERE backfill_id = $1 GROUP BY 1 ORDER BY 1", id_)
    assert found == [("b", 1), ("d", 2)]


async def test_a_cancel_between_stages_ends_it(world: World) -> None:
    await world.file(daily(work_of("s://a")), consumer("b", ["a"]))
    await created(world, 1, 2, limits={"max_active_runs": 1})
    await run_all(world)
    id_ = await created(world, 1, 2, **{**AGAIN, "limits": {"max_active_runs": 1}})
    for _ in range(2):
        await world.work()
        await settle(world)
    assert await world.rows("SELECT stage FROM backfill WHERE id = $1", id_) == [(1,)]

    await act(world, id_, BackfillAction.CANCEL, kills=True)

    assert await state_of(world, id_) == "cancelled"
    sql = "SELECT state::text, count(*) FROM backfill_date WHERE backfill_id = $1 GROUP BY 1 ORDER BY 1"
    assert await world.rows(sql, id_) == [("cancelled", 2), ("success", 2)]
    await counts_agree(world)


async def test_a_cascade_that_is_cancelled_while_the_last_runs_of_a_stage_run_goes_on_with_the_next(world: World) -> None:
    await world.file(daily(work_of("s://a")), consumer("b", ["a"], "s://b"), consumer("c", ["b"]))
    await created(world, 1, 2, limits={"max_active_runs": 1})
    await run_all(world)
    id_ = await created(world, 1, 2, **AGAIN)
    await settle(world)
    for stage in range(2):
        await act(world, id_, BackfillAction.CANCEL)
        await run_all(world)
        assert await state_of(world, id_) == "cancelled"
        assert await world.rows("SELECT stage, dates - succeeded FROM backfill WHERE id = $1", id_) == [(stage, 0)]
        assert await act(world, id_, BackfillAction.RETRY) == ()

    await run_all(world)

    assert await state_of(world, id_) == "success"
    assert await world.rows("SELECT dates, succeeded FROM backfill WHERE id = $1", id_) == [(6, 6)]
    assert await act(world, id_, BackfillAction.RETRY) == ("not_possible",)


async def test_a_deleted_consumer_is_passed_over(world: World) -> None:
    await world.file(daily(work_of("s://a")), path="d.py")
    await world.file(consumer("b", ["a"]), path="b.py")
    await world.file(consumer("c", ["a"]), path="c.py")
    await created(world, 1, 1)
    await run_all(world)
    id_ = await created(world, 1, 1, **AGAIN)
    await world.file(DagSpec(dag_id="other", tasks=(work_of(),)), path="b.py")
    await world.tell(DagDeleteRequested(dag_id="b"))

    await run_all(world)

    assert await state_of(world, id_) == "success"
    assert await world.rows("SELECT dag_id FROM dag_run WHERE backfill_id = $1 ORDER BY 1", id_) == [("c",), ("d",)]


async def test_a_consumer_that_is_paused_is_waited_for(world: World) -> None:
    await world.file(daily(work_of("s://a")), consumer("b", ["a"]))
    await created(world, 1, 1)
    await run_all(world)
    id_ = await created(world, 1, 1, **AGAIN)
    await world.tell(PauseRequested(dag_id="b", is_paused=True))
    await run_all(world)
    assert await state_of(world, id_) == "running"

    await world.tell(PauseRequested(dag_id="b", is_paused=False))
    await run_all(world)

    assert await state_of(world, id_) == "success"
    assert await world.rows("SELECT dates, succeeded FROM backfill WHERE id = $1", id_) == [(2, 2)]


async def test_a_consumer_that_a_cascade_waits_for_is_not_deleted_before_it_ends(world: World) -> None:
    await world.file(daily(work_of("s://a")), path="d.py")
    await world.file(consumer("b", ["a"]), path="b.py")
    await created(world, 1, 2, limits={"max_active_runs": 1})
    await run_all(world)
    id_ = await created(world, 1, 2, **AGAIN)
    await world.tell(PauseRequested(dag_id="d", is_paused=False))
    for _ in range(3):
        await world.work()
        await world.tick()
    await world.database.pool.execute("UPDATE dag SET is_paused = true WHERE dag_id = 'b'")
    await settle(world)
    await world.file(DagSpec(dag_id="other", tasks=(work_of(),)), path="b.py")
    for (run_id,) in await world.rows("SELECT run_id FROM dag_run WHERE dag_id = 'b' AND state IN ('queued', 'running')"):
        await world.tell(RunEndRequested(dag_id="b", run_id=run_id, state=RunState.FAILED, reason="gone"))
    (rejected,) = (await world.tell(DagDeleteRequested(dag_id="b"))).rejected
    assert f"backfill {id_} waits for DAG 'b', whose runs it runs again" in rejected.message

    await act(world, id_, BackfillAction.CANCEL)
    assert await state_of(world, id_) == "cancelled"
    assert (await world.tell(DagDeleteRequested(dag_id="b"))).rejected == ()
    await act(world, id_, BackfillAction.RETRY)
    await run_all(world)

    assert await state_of(world, id_) == "success"
    sql = "SELECT state::text, reason, count(*) FROM backfill_date WHERE backfill_id = $1 GROUP BY 1, 2 ORDER BY 1"
    assert await world.rows(sql, id_) == [("skipped", "its run was deleted", 2), ("success", "", 2)]
    await counts_agree(world)


async def test_a_circle_is_refused(world: World) -> None:
    await world.file(daily(work_of("s://a")), consumer("b", ["a", "c"], "s://b"), consumer("c", ["b"], "s://c"))
    id_ = await world.database.run(backfills.reserve)
    asked = BackfillRequested(backfill_id=id_, dag_id="d", start_date=day(1), end_date=day(2), **CASCADING)

    (rejected,) = (await world.tell(asked)).rejected

    assert rejected.message.startswith("DAGs consume from each other in a cycle: c > b > c; ")


@pytest.mark.parametrize(
    ("wrong", "file", "said"),
    [
        pytest.param({"reprocess": Reprocess.NONE}, {}, "a cascade follows runs that run again", id="nothing runs again"),
        pytest.param({}, {"allow_backfills": False}, "the cascade would come to DAG 'b'", id="a consumer refuses"),
    ],
)
async def test_a_cascade_that_cannot_be_is_refused(world: World, wrong: dict[str, Any], file: dict[str, Any], said: str) -> None:
    await world.file(daily(work_of("s://a")), msgspec.structs.replace(consumer("b", ["a"]), **file))
    id_ = await world.database.run(backfills.reserve)
    given = {"dag_id": "d", "start_date": day(1), "end_date": day(2), **CASCADING, **wrong}

    (rejected,) = (await world.tell(BackfillRequested(backfill_id=id_, **given))).rejected

    assert rejected.message.startswith(said)


async def test_a_cascade_that_has_begun_is_not_extended(world: World) -> None:
    await world.file(daily(work_of("s://a")), consumer("b", ["a"]))
    await created(world, 1, 2, limits={"max_active_runs": 1})
    await run_all(world)
    id_ = await created(world, 1, 2, **{**CASCADING, "limits": {"max_active_runs": 1}})
    for outcome in ("failed", "succeeded"):
        await world.work(outcome)
        await settle(world)
    assert await world.rows("SELECT stage FROM backfill WHERE id = $1", id_) == [(1,)]

    (rejected,) = (await world.tell(BackfillChanged(backfill_id=id_, end_date=day(9)))).rejected
    assert "has begun its cascade" in rejected.message


def joined(*tasks: CommandTask) -> DagSpec:
    """A DAG that waits for both `a` and `b`."""
    both = AllOf((DatasetRef("s://a"), DatasetRef("s://b")))
    return msgspec.structs.replace(consumer("c", ["a"], "s://c"), schedule=both, tasks=tasks or (work_of("s://c"),))


async def retried_at_work(world: World) -> int:
    """A cascade with a failed run of `b`, retried until `b` has run again, while `c` still runs with its other input."""
    await world.file(daily(work_of("s://a")), consumer("b", ["a"], "s://b"), joined())
    await created(world, 1, 1)
    await run_all(world)
    ((failing, _),) = await world.runs("b")
    id_ = await created(world, 1, 1, **AGAIN)
    await until_at_work(world, "c", frozenset({failing}))
    assert await act(world, id_, BackfillAction.RETRY) == ()
    for _ in range(4):
        await one_round(world, "c")
    return id_


async def test_a_cascade_is_retried_while_consumers_run(world: World) -> None:
    """A consumer at work began before its other input was rewritten: it runs once more after its end."""
    id_ = await retried_at_work(world)

    assert await world.rows("SELECT state::text FROM dag_run WHERE dag_id = 'b'") == [("success",)]
    await run_all(world)

    assert await tries_of_dags(world) == {"d": 2, "b": 3, "c": 3}
    assert await state_of(world, id_) == "success"
    assert await world.rows(TOO_EARLY, id_) == []
    await counts_agree(world)


async def test_a_consumer_that_is_to_run_once_more_does_so_after_its_end_by_a_daemon_of_a_former_version(world: World) -> None:
    """Such a daemon ends the run, and notifies no backfill."""
    id_ = await retried_at_work(world)
    assert await lagging(world) == []
    for attempt in await world.attempts():
        await world.finish(attempt, "succeeded")
    await world.database.pool.execute("UPDATE backfill SET due_at = NULL")
    await world.database.pool.execute("UPDATE dag SET is_paused = dag_id = 'c'")
    assert await lagging(world) == []
    await world.database.pool.execute("UPDATE dag SET is_paused = false")

    assert await lagging(world) == [id_]
    await run_all(world)

    assert (await tries_of_dags(world))["c"] == 3
    assert await state_of(world, id_) == "success"
    assert await lagging(world) == []


@pytest.mark.parametrize("kills", [False, True])
async def test_a_consumer_that_is_to_run_once_more_ends_with_a_cancelled_cascade(world: World, *, kills: bool) -> None:
    id_ = await retried_at_work(world)

    await act(world, id_, BackfillAction.CANCEL, kills=kills)
    assert await state_of(world, id_) == ("cancelled" if kills else "cancelling")
    await run_all(world)

    assert (await tries_of_dags(world))["c"] == 2
    assert await state_of(world, id_) == "cancelled"
    await counts_agree(world)


async def until_at_work(world: World, dag_id: str, failing: frozenset[str]) -> None:
    """Until a run of this DAG is running."""
    while not await world.rows("SELECT FROM dag_run WHERE dag_id = $1 AND state = 'running'", dag_id):
        await one_round(world, dag_id, failing)


async def one_round(world: World, spared: str, failing: frozenset[str] = frozenset()) -> None:
    """Tasks start, and end but for those of one DAG."""
    world.clock.at += timedelta(seconds=1)
    await settle(world)
    await world.admit()
    await world.submit()
    for attempt in await world.attempts():
        ((run_id, task_id, dag_id),) = await world.rows(RUN_OF, attempt)
        if dag_id != spared:
            await world.finish(attempt, "failed" if failing & {run_id, task_id} else "succeeded")
    await relay(world)


async def test_a_consumer_that_failed_in_part_is_retried_whole_if_its_input_is_rewritten(world: World) -> None:
    """Its task that had succeeded has read what is rewritten now."""
    load = CommandTask(task_id="load", argv=("true",))
    report = CommandTask(task_id="report", argv=("true",), upstream=("load",))
    await world.file(daily(work_of("s://a")), consumer("b", ["a"], "s://b"), joined(load, report))
    await created(world, 1, 1)
    await run_all(world)
    ((failing, _),) = await world.runs("b")
    id_ = await created(world, 1, 1, **AGAIN)
    await run_all(world, frozenset({failing, "report"}))
    assert await state_of(world, id_) == "failed"

    assert await act(world, id_, BackfillAction.RETRY) == ()
    await run_all(world)

    join = "JOIN dag_run AS run ON run.id = dag_run_id AND dag_id = 'c'"
    assert await world.rows(f"SELECT task_id, try_number FROM task_instance {join} ORDER BY 1") == [("load", 3), ("report", 3)]
    assert await state_of(world, id_) == "success"
    await counts_agree(world)


async def test_a_retried_cascade_runs_again_what_follows_the_failed_runs(world: World) -> None:
    """Of a consumer with two inputs, one failed at first: it ran again by the other one, and once more by both."""
    await world.file(daily(work_of("s://a")), consumer("b", ["a"], "s://b"), joined(), consumer("e", ["c"]))
    await created(world, 1, 1)
    await run_all(world)
    ((failing, _),) = await world.runs("b")
    id_ = await created(world, 1, 1, **AGAIN)
    await run_all(world, frozenset({failing}))
    assert await tries_of_dags(world) == {"d": 2, "b": 2, "c": 2, "e": 2}
    assert await state_of(world, id_) == "failed"

    assert await act(world, id_, BackfillAction.RETRY) == ()
    await run_all(world)

    assert await tries_of_dags(world) == {"d": 2, "b": 3, "c": 3, "e": 3}
    assert await state_of(world, id_) == "success"
    assert await world.rows(TOO_EARLY, id_) == []
    await counts_agree(world)


async def tries_of_dags(world: World) -> Mapping[str, int]:
    """Of DAGs with one run."""
    return {name.split()[0]: number for name, number in (await tries(world)).items()}


@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_held_consumer_holds_up_its_own_branch_only(world: World, *, is_begun: bool) -> None:
    await world.file(daily(work_of("s://a")), consumer("b", ["a"], "s://b"), consumer("c", ["b"]), consumer("x", ["a"]))
    await created(world, 1, 2, limits={"max_active_runs": 1})
    await run_all(world)
    id_ = await created(world, 1, 2, **{**CASCADING, "limits": {"max_active_runs": 1}})
    while is_begun and not await world.rows("SELECT FROM dag_run WHERE dag_id = 'b' AND state = 'running'"):
        await world.work()
        await settle(world)
    await world.database.run(holds.hold, {"b": "x"})

    await run_all(world)

    of_dags = "SELECT DISTINCT dag_id FROM dag_run WHERE backfill_id = $1 ORDER BY 1"
    dags = [row[0] for row in await world.rows(of_dags, id_)]
    assert (dags, await state_of(world, id_)) == (["b", "d", "x"] if is_begun else ["d", "x"], "running")
    assert await world.rows("SELECT due_at FROM backfill WHERE id = $1", id_) == [(None,)]
    await world.tell(ReleaseRequested(dag_id="b"))
    await run_all(world)
    assert await state_of(world, id_) == "success"
    assert set((await tries(world)).values()) == {2}
    await counts_agree(world)


async def test_a_cascade_is_cancelled_while_a_consumer_is_held(world: World) -> None:
    await world.file(daily(work_of("s://a")), consumer("b", ["a"]), consumer("x", ["a"]))
    await created(world, 1, 2, limits={"max_active_runs": 1})
    await run_all(world)
    id_ = await created(world, 1, 2, **{**CASCADING, "limits": {"max_active_runs": 1}})
    while not await world.rows("SELECT FROM dag_run WHERE dag_id = 'b' AND state = 'running'"):
        await world.work()
        await settle(world)
    await world.database.run(holds.hold, {"b": "x"})
    await settle(world)

    await act(world, id_, BackfillAction.CANCEL, kills=True)
    await world.submit()
    await settle(world)

    assert await state_of(world, id_) == "cancelled"
    assert await world.rows("SELECT FROM dag_run WHERE state IN ('queued', 'running')") == []
    await counts_agree(world)


async def test_a_consumer_that_another_backfill_or_a_user_runs_is_passed_over(world: World) -> None:
    """Its end is not told to this one, which would wait for ever."""
    await world.file(daily(work_of("s://a")), consumer("b", ["a"]))
    await created(world, 1, 2, limits={"max_active_runs": 1})
    await run_all(world)
    id_ = await created(world, 1, 2, **{**CASCADING, "limits": {"max_active_runs": 1}})
    for _ in range(2):
        await world.work()
        await settle(world)
    waiting = "SELECT run_id FROM backfill_date AS date JOIN dag_run AS run ON run.id = dag_run_id WHERE date.state = 'retry'"
    ((run_id,),) = await world.rows(waiting)

    await world.tell(ClearRequested(dag_id="b", run_id=run_id))
    await settle(world)
    await world.admit()
    await world.submit()
    own = "SELECT submission_id FROM submission AS it JOIN dag_run AS run ON run.id = dag_run_id WHERE backfill_id = $1"
    ((attempt,),) = await world.rows(f"{own} AND it.ended_at IS NULL", id_)
    await world.finish(attempt)
    await settle(world)

    assert await state_of(world, id_) == "success"
    skipped = await world.rows("SELECT reason LIKE 'its run %' FROM backfill_date WHERE state = 'skipped'")
    assert skipped == [(True,)]
    await counts_agree(world)


@pytest.mark.parametrize("by_version", [False, True])
async def test_a_held_last_consumer_does_not_keep_the_first_dates_waiting(world: World, *, by_version: bool) -> None:
    first = daily(work_of("s://a")), consumer("b", ["a"], "s://b")
    await world.file(*first, consumer("c", ["b"]))
    await created(world, 1, 1)
    await run_all(world)
    await world.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'x' WHERE dag_id = 'c'")

    id_ = await created(world, 1, 1, **AGAIN)
    await run_all(world)

    assert await world.rows("SELECT state::text, stage, succeeded FROM backfill WHERE id = $1", id_) == [("running", 2, 2)]
    if by_version:
        await world.file(*first, consumer("c", ["b"], "s://c"))
    else:
        await world.tell(ReleaseRequested(dag_id="c"))
    await run_all(world)
    assert await state_of(world, id_) == "success"


async def test_a_cascade_whose_last_stage_has_nothing_to_run_is_not_visited_again(world: World) -> None:
    """It would be visited without a pause, for ever."""
    await world.file(daily(work_of("s://a")), consumer("b", ["a"]))
    await created(world, 1, 1)
    await run_all(world)
    id_ = await created(world, 1, 1, **AGAIN)
    await world.tell(ClearRequested(dag_id="b", run_id=(await world.runs("b"))[0][0]))
    await settle(world)
    await world.admit()
    await world.submit()
    own = "SELECT submission_id FROM submission AS it JOIN dag_run AS run ON run.id = dag_run_id WHERE backfill_id = $1"
    ((attempt,),) = await world.rows(f"{own} AND it.ended_at IS NULL", id_)

    await world.finish(attempt)
    await settle(world)

    assert await world.rows("SELECT state::text, due_at FROM backfill WHERE id = $1", id_) == [("success", None)]


async def test_a_stage_that_begins_while_its_dag_is_paused_goes_on_later(world: World) -> None:
    await world.file(daily(work_of("s://a")), consumer("b", ["a"], "s://b"), consumer("c", ["b"]))
    await created(world, 1, 1)
    await run_all(world)
    id_ = await created(world, 1, 1, **AGAIN)
    while await world.rows("SELECT FROM backfill WHERE id = $1 AND stage = 0", id_):
        await world.work()
        await settle(world)
    await world.admit()
    await world.submit()
    await world.tell(PauseRequested(dag_id="b", is_paused=True))
    for attempt in await world.attempts():
        await world.finish(attempt)
    await settle(world)

    await world.tell(PauseRequested(dag_id="b", is_paused=False))
    await run_all(world)

    assert await state_of(world, id_) == "success"


@pytest.mark.parametrize(
    ("state", "obstacle"),
    [("paused", "is_paused = true"), ("stale", "is_stale = true"), ("held", "held_since = now(), hold_reason = 'x'")],
)
async def test_a_cleared_run_of_an_earlier_stage_starts_once_its_dag_may_start_runs(
    world: World, state: str, obstacle: str
) -> None:
    """Its `dagrun_timeout` would pass meanwhile, and the run would occupy a slot."""
    first = daily(work_of("s://a")), consumer("b", ["a"], "s://b")
    await world.file(*first, consumer("c", ["b"]))
    await created(world, 1, 1)
    await run_all(world)
    id_ = await created(world, 1, 1, **{**AGAIN, "limits": {"max_active_runs": 1}})
    while not await world.rows("SELECT FROM backfill WHERE id = $1 AND stage = 2", id_):
        await one_round(world, "c")
    await until_at_work(world, "c", frozenset())
    ((run_id, _),) = await world.runs("b")
    await world.tell(ClearRequested(dag_id="b", run_id=run_id))
    await world.database.pool.execute(f"UPDATE dag SET {obstacle} WHERE dag_id = 'b'")

    await run_all(world)

    assert await world.runs("b") == [(run_id, "queued")]
    page = await world.database.run(read_backfill_page, id_, Settings(postgres_dsn="", kafka_servers=""))
    assert [date.reason.split(";")[0] for date in page.dates if date.dag_id == "b"] == [f"DAG b is {state}"]
    assert await world.rows("SELECT state::text, due_at FROM backfill WHERE id = $1", id_) == [("running", None)]
    alone = (await world.database.run(facts.run_facts, "b", run_id)).inactive
    await world.tell(PauseRequested(dag_id="d", is_paused=True))
    beside = (await world.database.run(facts.run_facts, "b", run_id)).inactive
    assert (alone, beside and (beside.dag_id, beside.state)) == (None, ("d", "paused"))
    await world.tell(PauseRequested(dag_id="d", is_paused=False))
    await world.database.pool.execute("UPDATE dag SET is_stale = false WHERE dag_id = 'b'")
    await world.tell(ReleaseRequested(dag_id="b"))
    await world.tell(PauseRequested(dag_id="b", is_paused=False))
    await run_all(world)
    assert await state_of(world, id_) == "success"
    await counts_agree(world)


async def test_a_cleared_run_of_an_earlier_stage_keeps_its_dag_when_a_stop_is_lifted(world: World) -> None:
    """The stop ends it, and it runs again: not with the version of the stage that the cascade had come to."""
    await world.file(daily(work_of("s://a")), consumer("b", ["a"]))
    await created(world, 1, 2, limits={"max_active_runs": 2})
    await run_all(world)
    id_ = await created(world, 1, 2, **{**AGAIN, "limits": {"max_active_runs": 1, "max_failed_runs": 1}})
    await until_at_work(world, "b", frozenset())
    await world.tell(ClearRequested(dag_id="d", run_id=run_of(1)))
    ((at_work, _),) = await world.rows("SELECT run_id, id FROM dag_run WHERE dag_id = 'b' AND state = 'running'")
    await run_all(world, frozenset({at_work}))
    stopped = await world.rows("SELECT state::text, stage, cancelled > 0 FROM backfill WHERE id = $1", id_)

    await world.tell(BackfillChanged(backfill_id=id_, changes={"max_failed_runs": 9}))
    await run_all(world)

    assert stopped == [("failed", 1, True)]
    sql = "SELECT run_id FROM dag_run AS run JOIN dag_version AS it ON it.id = version_id WHERE it.dag_id <> run.dag_id"
    assert await world.rows(sql) == []
    assert await state_of(world, id_) == "failed"
    await counts_agree(world)


async def test_a_consumer_in_no_file_is_left_out(world: World) -> None:
    await world.file(daily(work_of("s://a")), path="d.py")
    await world.file(consumer("b", ["a"]), path="b.py")
    await created(world, 1, 1)
    await run_all(world)
    await world.file(DagSpec(dag_id="other", tasks=(work_of(),)), path="b.py")

    id_ = await created(world, 1, 1, **AGAIN)
    await run_all(world)

    assert await world.rows("SELECT state::text, stages FROM backfill WHERE id = $1", id_) == [("success", [])]


async def test_a_run_of_a_deleted_backfill_runs_under_the_limits_of_its_dag(world: World) -> None:
    await world.file(daily(work_of("s://a")), path="d.py")
    await world.file(consumer("b", ["a"]), path="b.py")
    await created(world, 1, 1)
    await run_all(world)
    await created(world, 1, 1, **AGAIN)
    await run_all(world)
    await world.file(DagSpec(dag_id="other", tasks=(work_of(),)), path="d.py")
    await world.tell(DagDeleteRequested(dag_id="d"))
    ((run_id, _),) = await world.runs("b")

    await world.tell(ClearRequested(dag_id="b", run_id=run_id))
    await run_all(world)

    assert await world.runs("b") == [(run_id, "success")]
    assert await world.rows("SELECT backfill_id FROM dag_run WHERE dag_id = 'b'") == [(None,)]


async def test_runs_that_datasets_started_are_replayed_with_their_events(world: World) -> None:
    await world.file(consumer("b", ["a"]))
    for number in range(4):
        world.clock.at = utc(2024, 5, 2, number)
        await world.updated("s://a", {"n": number})
        await run_all(world, frozenset())
    before = await world.rows("SELECT * FROM dagrun_dataset_event ORDER BY 1, 2")
    id_ = await world.database.run(backfills.reserve)
    facts: dict[str, Any] = {"dag_id": "b", "start_date": utc(2024, 5, 2, 1), "end_date": utc(2024, 5, 2, 2, 59)}
    asked = BackfillRequested(backfill_id=id_, **facts, reprocess=Reprocess.COMPLETED, max_active_runs=1)

    assert not (await world.tell(asked)).rejected
    await run_all(world)

    assert await world.rows("SELECT try_number FROM task_instance ORDER BY dag_run_id") == [(1,), (2,), (2,), (1,)]
    assert await world.rows("SELECT * FROM dagrun_dataset_event ORDER BY 1, 2") == before
    assert await state_of(world, id_) == "success"
    await counts_agree(world)


async def test_a_cascade_of_a_replay_without_runs_ends(world: World) -> None:
    """The clock would visit it without a pause, and neither a stage nor a cancel would end."""
    await world.file(consumer("b", ["a"], "s://b"), consumer("c", ["b"]))
    id_ = await world.database.run(backfills.reserve)
    dates: dict[str, Any] = {"start_date": day(1), "end_date": utc(2024, 5, 2)}

    assert not (await world.tell(BackfillRequested(backfill_id=id_, dag_id="b", **dates, **CASCADING))).rejected
    await run_all(world)

    assert await world.rows("SELECT state::text, stage, due_at FROM backfill") == [("success", 0, None)]


@pytest.mark.parametrize(
    "facts", [{}, {"reprocess": Reprocess.FAILED, "is_reverse": True}, {"dag_id": "never", "reprocess": Reprocess.FAILED}]
)
async def test_a_replay_that_cannot_work_is_refused(world: World, facts: dict[str, Any]) -> None:
    await world.file(consumer("b", ["a"]), DagSpec(dag_id="never", tasks=(work_of(),)))
    id_ = await world.database.run(backfills.reserve)
    given = {"dag_id": "b", "start_date": day(1), "end_date": utc(2024, 5, 2), **facts}

    assert (await world.tell(BackfillRequested(backfill_id=id_, **given))).rejected


async def test_a_paused_consumer_without_a_run_that_is_concerned_holds_up_none(world: World) -> None:
    await world.file(daily(work_of("s://a")), consumer("b", ["a"]), consumer("c", ["a"]))
    await world.tell(PauseRequested(dag_id="b", is_paused=True))
    await created(world, 1, 1)
    await run_all(world)

    id_ = await created(world, 1, 1, **AGAIN)
    await run_all(world)

    assert await state_of(world, id_) == "success"
    assert await world.rows("SELECT dag_id FROM dag_run WHERE backfill_id = $1 ORDER BY 1", id_) == [("c",), ("d",)]


FAILED_ONES: dict[str, Any] = {**CASCADING, "reprocess": Reprocess.FAILED}


async def test_the_first_success_of_a_run_starts_its_consumers_once(world: World) -> None:
    """They have consumed what the backfill has written, and ended before the next stage begins."""
    await world.file(daily(work_of("s://a")), consumer("b", ["a"], "s://b"), consumer("c", ["b"]))
    await created(world, 1, 3, limits={"max_active_runs": 1})
    await run_all(world, frozenset({run_of(1), run_of(2)}))

    id_ = await created(world, 1, 3, **FAILED_ONES, limits={"max_active_runs": 1})
    await run_all(world)

    assert await state_of(world, id_) == "success"
    again = {name for name, number in (await tries(world)).items() if number > 1}
    assert again == {f"d {run_of(1)}", f"d {run_of(2)}"}
    assert [len(await world.runs(dag_id)) for dag_id in ("b", "c")] == [3, 3]


async def test_a_retry_of_a_first_success_does_not_run_its_consumers_again(world: World) -> None:
    """The task before the one that failed has started them already."""
    last = CommandTask(task_id="last", argv=("true",), upstream=("work",))
    await world.file(daily(work_of("s://a"), last), consumer("b", ["a"]))
    await created(world, 1, 2)
    await run_all(world, frozenset({run_of(1), run_of(2)}))
    id_ = await created(world, 1, 2, **FAILED_ONES)
    for outcomes in ({"d": "succeeded"}, {"d": "failed", "b": "succeeded"}):
        await first_date_ends(world, outcomes)

    assert await act(world, id_, BackfillAction.RETRY) == ()
    await run_all(world)

    assert await state_of(world, id_) == "success"
    assert {number for name, number in (await tries(world)).items() if name.startswith("b ")} == {1}


async def first_date_ends(world: World, outcomes: Mapping[str, str]) -> None:
    """The attempts of the DAGs end so, except those of the second date."""
    world.clock.at += timedelta(seconds=1)
    await world.admit()
    await world.submit()
    sql = "SELECT submission_id, dag_id FROM submission JOIN dag_run ON id = dag_run_id WHERE ended_at IS NULL AND run_id <> $1"
    for attempt, dag_id in await world.rows(sql, run_of(2)):
        await world.finish(attempt, outcomes[dag_id])
    await relay(world)
    await settle(world)


async def test_the_outlets_of_a_run_are_those_of_its_version(world: World) -> None:
    """A newer version of the DAG has others."""
    await world.file(daily(work_of("s://a")), consumer("b", ["a"], "s://b"), consumer("c", ["b"]))
    await created(world, 1, 1)
    await run_all(world)
    id_ = await created(world, 1, 1, **AGAIN)
    while await world.rows("SELECT FROM backfill WHERE id = $1 AND stage = 0", id_):
        await world.work()
        await settle(world)

    await world.file(daily(work_of("s://a")), consumer("b", ["a"], "s://other"), consumer("c", ["b"]))
    await run_all(world)

    assert await state_of(world, id_) == "success"
    assert {name.split()[0] for name, number in (await tries(world)).items() if number == 2} == {"b", "c", "d"}
