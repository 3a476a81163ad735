"""What consumed the outlets of cleared tasks: it is listed, it runs again by a cascade, or it gets new events."""

from typing import Any

import pytest

from tests.integration.engine.chains import command
from tests.integration.engine.test_backfills import counts_agree, created, daily, run_of, settle, state_of
from tests.integration.engine.test_cascade import consumer, run_all, tries, work_of
from tests.integration.engine.world import World, utc
from tidegate.daemon.read_model.clearing import preview
from tidegate.daemon.read_model.run import rewritten_text
from tidegate.schemas.dag import CommandTask, DagSpec
from tidegate.schemas.message import ClearRequested, PauseRequested, RunEndRequested, RunRequested
from tidegate.schemas.queries import backfills, consumers
from tidegate.schemas.state import RunState

CHAIN = (
    DagSpec(dag_id="d", tasks=(command("other"), CommandTask(task_id="work", argv=("true",), outlets=("s://a",)))),
    consumer("b", ["a"], "s://b"),
    consumer("c", ["b"]),
)


async def begun(world: World, *specs: DagSpec, runs: int = 1) -> None:
    """These DAGs, and runs r1, r2, … of `d` with all that follows from them."""
    await world.file(*(specs or CHAIN))
    for number in range(1, runs + 1):
        await world.tell(RunRequested(dag_id="d", run_id=f"r{number}", conf={}, logical_date=utc(2024, 4, number)))
        await run_all(world)


async def clear(world: World, run_id: str | None = "r1", dag_id: str = "d", **facts: Any) -> tuple[int, tuple[str, ...]]:
    """The id of the backfill that a cascade gets, and why the request is rejected."""
    id_ = await world.database.run(backfills.reserve)
    request = ClearRequested(dag_id=dag_id, run_id=run_id, backfill_id=id_ if facts.get("cascade") else None, **facts)
    applied = await world.tell(request)
    return id_, tuple(rejected.message for rejected in applied.rejected)


async def again(world: World, before: dict[str, int]) -> list[str]:
    """The DAGs whose runs have run more often than before, by name."""
    return sorted(name.split()[0] for name, number in (await tries(world)).items() if number > before.get(name, 0))


async def test_the_preview_names_the_runs_that_consumed_and_those_after_them(world: World) -> None:
    await begun(world)

    (cleared,) = (await world.database.run(preview, ClearRequested(dag_id="d", run_id="r1"))).runs

    found = [(it.producer_dag_id, it.dag_id, it.uri, it.state, it.is_paused) for it in cleared.consumers]
    assert found == [("d", "b", "s://a", "success", False), ("b", "c", "s://b", "success", False)]


async def test_nothing_has_consumed_what_other_tasks_of_the_run_write(world: World) -> None:
    await begun(world)

    (cleared,) = (await world.database.run(preview, ClearRequested(dag_id="d", run_id="r1", task_ids=("other",)))).runs

    assert (list(cleared.tasks), list(cleared.consumers)) == (["other"], [])


async def test_a_cascade_runs_the_consumers_of_a_cleared_run_again_in_order(world: World) -> None:
    await begun(world, runs=2)
    before = dict(await tries(world))

    id_, rejected = await clear(world, cascade=True)
    await run_all(world)

    assert rejected == ()
    assert await again(world, before) == ["b", "c", "d"]
    assert await state_of(world, id_) == "success"
    starts = await world.rows("SELECT dag_id, start_date FROM dag_run WHERE backfill_id = $1 ORDER BY start_date", id_)
    assert [row[0] for row in starts] == ["d", "b", "c"]
    await counts_agree(world)


async def test_only_the_tasks_that_were_cleared_have_written_again(world: World) -> None:
    """The run of `d` has another task with an outlet, whose consumer has read what is still there."""
    second = CommandTask(task_id="second", argv=("true",), outlets=("s://x",))
    await begun(world, DagSpec(dag_id="d", tasks=(work_of("s://a"), second)), consumer("b", ["a"]), consumer("e", ["x"]))
    before = dict(await tries(world))

    await clear(world, cascade=True, task_ids=("work",))
    await run_all(world)

    assert await again(world, before) == ["b"]


async def test_a_consumer_of_two_inputs_runs_again_once(world: World) -> None:
    await begun(world, DagSpec(dag_id="d", tasks=(work_of("s://a", "s://b"),)), consumer("b", ["a", "b"]))
    runs = await world.rows("SELECT count(*) FROM dag_run WHERE dag_id = 'b'")
    before = dict(await tries(world))

    await clear(world, cascade=True)
    await run_all(world)

    assert await again(world, before) == ["b"] * runs[0][0] + ["d"]
    assert await world.rows("SELECT count(*) FROM dag_run WHERE dag_id = 'b'") == runs


async def test_a_second_cascade_waits_for_the_end_of_the_first(world: World) -> None:
    await begun(world)
    id_, _ = await clear(world, cascade=True)

    for request in ({"cascade": True}, {"cascade": True, "task_ids": ("work",)}):
        _, rejected = await clear(world, **request)
        assert rejected[0] == (
            f"backfill {id_} has not ended, and runs 'r1' already; wait for its end, cancel it, or leave out cascade"
        )
    await run_all(world)
    assert await state_of(world, id_) == "success"

    _, rejected = await clear(world, cascade=True)
    assert rejected == ()


async def test_a_plain_clear_of_a_run_in_a_cascade_keeps_the_cascade_waiting_for_it(world: World) -> None:
    await begun(world)
    id_, _ = await clear(world, cascade=True)
    await settle(world)
    await world.work()

    _, rejected = await clear(world)
    await settle(world)

    assert rejected == ()
    assert await state_of(world, id_) == "running"
    await run_all(world)
    assert await state_of(world, id_) == "success"
    await counts_agree(world)


async def test_a_cascade_waits_while_the_consumer_is_paused(world: World) -> None:
    await begun(world)
    await world.tell(PauseRequested(dag_id="b", is_paused=True))
    before = dict(await tries(world))
    id_, _ = await clear(world, cascade=True)
    await run_all(world)
    assert await again(world, before) == ["d"]
    assert await state_of(world, id_) == "running"

    await world.tell(PauseRequested(dag_id="b", is_paused=False))
    await run_all(world)

    assert await again(world, before) == ["b", "c", "d"]
    assert await state_of(world, id_) == "success"


async def test_a_consumer_that_is_running_runs_again_after_its_end(world: World) -> None:
    """It has read what was there when it started."""
    await begun(world)
    ((run_id,),) = await world.rows("SELECT run_id FROM dag_run WHERE dag_id = 'b'")
    await clear(world, run_id, "b")
    await settle(world)
    await world.admit()
    await world.submit()
    (at_work,) = await world.attempts()
    await world.wait(seconds=5)
    id_, _ = await clear(world, cascade=True, task_ids=("work",))
    await settle(world)
    await world.admit()
    await world.submit()
    (rewriting,) = set(await world.attempts()) - {at_work}
    await world.finish(rewriting)
    await settle(world)
    assert await world.rows("SELECT state::text FROM backfill_date WHERE backfill_id = $1 ORDER BY ordinal", id_) == [
        ("success",),
        ("retry",),
    ]

    await world.finish(at_work)
    await world.wait(seconds=10)
    await run_all(world)

    assert await state_of(world, id_) == "success"
    assert await world.rows("SELECT try_number FROM task_instance JOIN dag_run ON id = dag_run_id WHERE dag_id = 'b'") == [(3,)]
    await counts_agree(world)


async def test_a_consumer_that_is_queued_reads_the_new_data_when_it_starts(world: World) -> None:
    await begun(world)
    ((run_id,),) = await world.rows("SELECT run_id FROM dag_run WHERE dag_id = 'b'")
    await world.tell(PauseRequested(dag_id="b", is_paused=True))
    await clear(world, run_id, "b")
    id_, _ = await clear(world, cascade=True)
    await run_all(world)

    sql = "SELECT state::text, reason FROM backfill_date WHERE backfill_id = $1 AND ordinal = 2"
    assert await world.rows(sql, id_) == [("skipped", f"its run {run_id!r} is queued")]


async def test_a_cleared_run_that_fails_again_leaves_its_consumers(world: World) -> None:
    await begun(world)
    before = dict(await tries(world))

    id_, _ = await clear(world, cascade=True)
    await run_all(world, frozenset({"r1"}))

    assert await again(world, before) == ["d"]
    assert await state_of(world, id_) == "failed"


async def test_a_run_that_a_backfill_had_run_with_a_low_priority_gets_that_of_the_clearing(world: World) -> None:
    await world.file(daily(work_of("s://a")), consumer("b", ["a"]))
    await created(world, 1, 1)
    await run_all(world)

    id_, rejected = await clear(world, run_of(1), cascade=True)
    await settle(world)

    assert rejected == ()
    assert await world.rows("SELECT backfill_id, priority FROM dag_run WHERE dag_id = 'd'") == [(id_, 0)]
    assert await world.rows(
        "SELECT rank FROM task_instance AS t JOIN dag_run AS r ON r.id = t.dag_run_id WHERE dag_id = 'd'"
    ) == [(-1,)]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"cascade": True, "task_ids": ("other",)}, "none of these tasks updates a dataset: leave out cascade and announce"),
        ({"announce": True, "task_ids": ("other",)}, "none of these tasks updates a dataset: leave out cascade and announce"),
        (
            {"cascade": True, "announce": True},
            "a cascade runs the consumers again, and announced events start new runs of them: choose either cascade or announce",
        ),
    ],
)
async def test_what_cannot_reach_a_consumer_is_rejected(world: World, facts: dict[str, Any], said: str) -> None:
    await begun(world)
    before = await tries(world)

    _, rejected = await clear(world, **facts)
    await run_all(world)

    assert rejected[0] == said
    assert await tries(world) == before


async def test_without_consumers_a_cascade_is_a_plain_clear(world: World) -> None:
    await begun(world, CHAIN[0])

    _, rejected = await clear(world, cascade=True)
    await run_all(world)

    assert rejected == ()
    assert await world.rows("SELECT count(*) FROM backfill") == [(0,)]
    assert await tries(world) == {"d r1": 2}


async def test_announced_outlets_are_new_events_each_time_that_is_asked(world: World) -> None:
    await begun(world)
    ran = "SELECT dag_id, count(*) FROM dag_run WHERE dag_id IN ('b', 'c') GROUP BY dag_id ORDER BY dag_id"
    assert await world.rows(ran) == [("b", 1), ("c", 1)]

    for number in (2, 3):
        await clear(world, announce=True)
        await run_all(world)
        assert await world.rows(ran) == [("b", number), ("c", number)]

    await clear(world)
    await run_all(world)
    assert await world.rows(ran) == [("b", 3), ("c", 3)]


async def test_a_task_that_was_not_announced_publishes_nothing_again(world: World) -> None:
    second = CommandTask(task_id="second", argv=("true",), outlets=("s://x",))
    await begun(world, DagSpec(dag_id="d", tasks=(work_of("s://a"), second)), consumer("b", ["a"]), consumer("e", ["x"]))
    await clear(world, announce=True, task_ids=("work",))
    await run_all(world)

    await clear(world, task_ids=("second",))
    await run_all(world)

    assert await world.rows("SELECT dag_id, count(*) FROM dag_run GROUP BY 1 ORDER BY 1") == [("b", 2), ("d", 1), ("e", 1)]


async def test_a_cascade_finds_the_consumers_of_announced_events_too(world: World) -> None:
    await begun(world)
    await clear(world, announce=True)
    await run_all(world)
    before = dict(await tries(world))

    await clear(world, cascade=True)
    await run_all(world)

    assert await again(world, before) == ["b", "b", "c", "c", "d"]


async def test_a_consumer_says_that_its_input_was_written_again(world: World) -> None:
    await begun(world)
    ((run_id,),) = await world.rows("SELECT run_id FROM dag_run WHERE dag_id = 'b'")

    async def said() -> list[str]:
        return [rewritten_text(found) for found in await world.database.run(consumers.rewritten_inputs, "b", run_id)]

    assert await said() == []
    await clear(world)
    assert await said() == ["s://a is written again: task work of d r1 is none since it was cleared"]
    await world.wait(seconds=5)
    await run_all(world)
    (again_,) = await said()
    assert again_.startswith("s://a was written again at 2024-")
    assert again_.endswith("task work of d r1 ran again after this run had started")

    await clear(world, run_id, "b")
    assert await said() == []
    await world.wait(seconds=5)
    await run_all(world)
    assert await said() == []


async def test_an_input_whose_task_failed_again_may_be_incomplete(world: World) -> None:
    await begun(world)
    ((run_id,),) = await world.rows("SELECT run_id FROM dag_run WHERE dag_id = 'b'")
    await world.wait(seconds=5)
    await clear(world)
    await run_all(world, frozenset({"work"}))

    (found,) = await world.database.run(consumers.rewritten_inputs, "b", run_id)

    assert rewritten_text(found).startswith("s://a may be incomplete: task work of d r1 ran again and is failed since 2024-")


async def test_a_task_that_is_marked_has_written_nothing(world: World) -> None:
    await begun(world)
    ((run_id,),) = await world.rows("SELECT run_id FROM dag_run WHERE dag_id = 'b'")
    await clear(world)
    await world.wait(seconds=5)

    await world.tell(RunEndRequested(dag_id="d", run_id="r1", state=RunState.SUCCESS, reason="marked by a user"))

    assert await world.database.run(consumers.rewritten_inputs, "b", run_id) == []
