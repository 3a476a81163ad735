"""Backfills: every date has one run or one reason, under limits of its own, beside the schedule.

| case | test |
|---|---|
| K01 | test_k01_dates_get_runs_in_order_as_there_is_room |
| K01 | test_k01_in_reverse_the_newest_date_is_the_first |
| K03 | test_k03_two_backfills_have_no_date_in_common |
| K03 | test_k03_an_ended_backfill_is_in_the_way_of_none |
| K04, K05 | test_requests_that_cannot_work_are_rejected |
| K07 | test_k07_what_was_asked_for_is_on_the_row |
| K08 | test_k08_an_existing_run_runs_again_with_the_newest_version_or_stays |
| K08 | test_a_retry_keeps_a_newer_version_of_a_run |
| K09 | test_k09_a_range_needs_a_timetable_with_dates |
| K09 | test_k09_a_dag_may_allow_none |
| K09 | test_a_backfill_that_cannot_be_is_refused_with_its_status |
| K09 | test_what_cannot_be_done_is_said |
| K10 | test_k10_dates_that_are_not_due_get_no_run |
| K11 | test_a_dry_run_says_what_would_happen_and_changes_nothing |
| K11 | test_a_preview_lists_dates_and_changes_nothing |
| K12 | test_k12_a_cancel_ends_queued_runs_and_leaves_running_ones |
| K12 | test_a_backfill_that_cannot_be_is_refused_with_its_status |
| K13 | test_k13_a_paused_backfill_starts_nothing_until_it_is_resumed |
| K16 | test_k16_tasks_of_other_runs_come_first |
| K18 | test_k18_it_ends_with_its_last_run |
| K20 | test_k20_backfills_end_one_by_one |
| K21 | test_k21_its_tasks_obey_pools |
| K21 | test_its_tasks_keep_limits_over_all_its_runs |
| a cancel unblocks cleared runs | test_a_cleared_run_of_a_cancelled_backfill_runs_under_the_limits_of_its_dag |
| it ends once every planned run has | test_it_ends_after_its_last_run_has_and_keeps_its_limit |
| two of one DAG run side by side | test_k20_backfills_end_one_by_one |
| dates are planned in the background | test_a_million_dates_take_as_many_statements_as_one |
| it can be deleted | test_a_deleted_one_is_gone_and_its_runs_stay |
| it tells its progress | test_a_backfill_is_created_listed_shown_and_followed |
| it tells its progress | test_the_time_left_follows_a_change_of_limits |
| its limit changes while it runs | test_the_limit_changes_while_it_runs |

`tests/acceptance/test_backfills.py` has what users of a peer reported.
"""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import anyio
import msgspec
import pytest

from tests.backfill_rules import BROKEN, MISCOUNTED_STAGES
from tests.integration.engine.chains import command
from tests.integration.engine.world import World, states, utc
from tidegate.daemon.containment import apply_holding
from tidegate.daemon.engine import Batch
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.read_model.backfill import read_backfill
from tidegate.daemon.read_model.backfill_progress import Progress, read_progress
from tidegate.daemon.read_model.backfill_reasons import with_reasons
from tidegate.daemon.read_model.lookup import find_run
from tidegate.daemon.read_model.queue import PoolQueue, read_queue
from tidegate.daemon.read_model.run_progress import read_run_progress
from tidegate.daemon.read_model.why_not import read_task_why_not
from tidegate.daemon.settings import Settings
from tidegate.schemas.backfill import LAST_PRIORITY, BackfillSpec, Outlets, Reprocess, limits_version
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask, TaskSpec
from tidegate.schemas.explain.gates import RunProgress, TaskExplanation
from tidegate.schemas.explain.reasons import BackfillLimit, DagHeld, Parallelism
from tidegate.schemas.message import (
    BackfillActed,
    BackfillAction,
    BackfillChanged,
    BackfillDue,
    BackfillLagging,
    BackfillRequested,
    ClearRequested,
    Message,
    PauseRequested,
    RunEndRequested,
    RunRequested,
)
from tidegate.schemas.params import Params, ParamSpec
from tidegate.schemas.queries import backfill_dates, backfills, tasks
from tidegate.schemas.queries.backfill_pages import DateRow, list_dates
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.facts import run_facts
from tidegate.schemas.state import RunState
from tidegate.schemas.timetable.spec import Cron, Once

DAILY = Cron(("0 0 * * *",))
WORK = CommandTask(task_id="work", argv=("true",))


def daily(*tasks: TaskSpec, **facts: Any) -> DagSpec:
    return DagSpec(dag_id="d", tasks=tasks or (WORK,), **{"timetable": DAILY, "missed": "skip", **facts})


def day(number: int) -> datetime:
    return utc(2024, 4, number)


def run_of(number: int) -> str:
    return f"backfill__2024-04-{number:02}T00:00:00+00:00"


async def asked(world: World, first: int = 1, last: int = 5, **facts: Any) -> tuple[int, tuple[str, ...]]:
    """The id of a new backfill of some days in April, and why it was rejected."""
    id_ = await world.database.run(backfills.reserve)
    limits = facts.pop("limits", {"max_active_runs": 2})
    given = {"dag_id": "d", "start_date": day(first), "end_date": day(last), **limits, **facts}
    applied = await world.tell(BackfillRequested(backfill_id=id_, **given))
    return id_, tuple(rejected.reason for rejected in applied.rejected)


async def created(world: World, first: int = 1, last: int = 5, **facts: Any) -> int:
    id_, rejected = await asked(world, first, last, **facts)
    assert rejected == ()
    await settle(world)
    return id_


async def settle(world: World) -> None:
    """Let the backfills do what they can without the end of a run."""
    for _ in range(5):
        await world.tick()


async def work(world: World, outcome: Any = "succeeded") -> None:
    await world.work(outcome)
    await settle(world)


async def act(world: World, id_: int, action: BackfillAction, **facts: Any) -> tuple[str, ...]:
    applied = await world.tell(BackfillActed(backfill_id=id_, action=action, **facts))
    await settle(world)
    return tuple(rejected.reason for rejected in applied.rejected)


async def state_of(world: World, id_: int) -> str:
    return str((await world.rows("SELECT state::text FROM backfill WHERE id = $1", id_))[0][0])


async def dates(world: World, id_: int) -> list[tuple[int, int, str, str | None]]:
    """(ordinal, day, state, run) in the order of planning."""
    sql = """
        SELECT ordinal, extract(day FROM date.logical_date AT TIME ZONE 'UTC')::int, date.state::text, run.run_id
        FROM backfill_date AS date LEFT JOIN dag_run AS run ON run.id = date.dag_run_id
        WHERE date.backfill_id = $1 ORDER BY ordinal
    """
    return [(row[0], row[1], row[2], row[3]) for row in await world.rows(sql, id_)]


async def counts_agree(world: World) -> None:
    """The counts on each backfill are those of its dates."""
    sql = """
        SELECT backfill.id, dates, succeeded, failed, skipped, cancelled, tasks, tasks_succeeded, tasks_skipped, tasks_failed
        FROM backfill WHERE NOT deleted
    """
    for id_, *counts in await world.rows(sql):
        counted = """
            SELECT count(*), count(*) FILTER (WHERE state = 'success'), count(*) FILTER (WHERE state = 'failed'),
                count(*) FILTER (WHERE state = 'skipped'), count(*) FILTER (WHERE state = 'cancelled'),
                coalesce(sum(tasks), 0), coalesce(sum(tasks_succeeded), 0), coalesce(sum(tasks_skipped), 0),
                coalesce(sum(tasks_failed), 0)
            FROM backfill_date WHERE backfill_id = $1
        """
        assert [list(row) for row in await world.rows(counted, id_)] == [counts]
    assert await world.rows(MISCOUNTED) == []
    assert await world.rows(BROKEN[MISCOUNTED_STAGES]) == []


MISCOUNTED = """
    SELECT date.backfill_id, date.ordinal, date.state::text, date.tasks, task.*
    FROM backfill_date AS date
    JOIN dag_run AS run ON run.id = date.dag_run_id AND run.backfill_id = date.backfill_id
    CROSS JOIN LATERAL run_task_counts(run.id) AS task
    WHERE run.state IN ('success', 'failed') AND NOT date.is_whole AND (
        (date.state IN ('success', 'failed', 'cancelled') AND
            (date.tasks, date.tasks_succeeded, date.tasks_skipped, date.tasks_failed)
            <> (task.tasks, task.tasks_succeeded, task.tasks_skipped, task.tasks_failed))
        OR (date.state IN ('retry', 'skipped') AND date.tasks > 0)
    )
"""
"""Dates whose counts are not those of the tasks of their ended runs."""


async def test_k01_dates_get_runs_in_order_as_there_is_room(world: World) -> None:
    await world.file(daily())

    id_ = await created(world, dag_params={"day": 1})

    assert await dates(world, id_) == [(1, 1, "open", run_of(1)), (2, 2, "open", run_of(2))]
    sql = "SELECT run_type::text, conf, data_interval_end, backfill_id FROM dag_run ORDER BY order_at LIMIT 1"
    assert await world.rows(sql) == [("backfill", {"day": 1}, day(1), id_)]
    while await state_of(world, id_) != "success":
        await work(world)
        await counts_agree(world)
    assert await dates(world, id_) == [(n, n, "success", run_of(n)) for n in range(1, 6)]


async def test_k01_in_reverse_the_newest_date_is_the_first(world: World) -> None:
    await world.file(daily())

    id_ = await created(world, is_reverse=True)

    assert await dates(world, id_) == [(1, 5, "open", run_of(5)), (2, 4, "open", run_of(4))]
    await work(world)
    for number in (4, 5):
        await world.tell(ClearRequested(dag_id="d", run_id=run_of(number)))
    queued = [await world.database.run(run_facts, "d", run_of(number)) for number in (5, 4)]
    assert [(run.view.state, run.runs_ahead) for run in queued] == [("queued", 0), ("queued", 1)]
    while await state_of(world, id_) != "success":
        await work(world)
    assert [found[1] for found in await dates(world, id_)] == [5, 4, 3, 2, 1]


async def test_a_list_of_dates_needs_no_timetable(world: World) -> None:
    await world.file(daily(timetable=None))

    id_ = await created(world, 1, 9, logical_dates=(day(9), day(1), day(4)), limits={"max_active_runs": 9})

    assert [found[1] for found in await dates(world, id_)] == [1, 4, 9]


@pytest.mark.parametrize(
    ("first", "facts", "reasons"),
    [
        pytest.param(4, {}, ("overlaps",), id="overlapping"),
        pytest.param(6, {}, (), id="disjoint"),
        pytest.param(1, {"logical_dates": (day(3),)}, ("overlaps",), id="a date of the range"),
        pytest.param(1, {"logical_dates": (day(9),)}, (), id="another date"),
    ],
)
async def test_k03_two_backfills_have_no_date_in_common(
    world: World, first: int, facts: dict[str, Any], reasons: tuple[str, ...]
) -> None:
    await world.file(daily())
    await created(world, 1, 5)

    assert (await asked(world, first, 9, **facts))[1] == reasons


async def test_k03_an_ended_backfill_is_in_the_way_of_none(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, 1, 1)
    await work(world)
    assert await state_of(world, id_) == "success"

    assert (await asked(world, 1, 5))[1] == ()


SEQUENTIAL = CommandTask(task_id="work", argv=("true",), depends_on_past=True)
IN_ORDER: dict[str, Any] = {"reprocess": Reprocess.FAILED}


@pytest.mark.parametrize(
    ("task", "facts", "reasons"),
    [
        pytest.param(SEQUENTIAL, {"is_reverse": True, "reprocess": Reprocess.FAILED}, ("not_possible",), id="K04"),
        pytest.param(SEQUENTIAL, {}, ("not_possible",), id="K05"),
        pytest.param(SEQUENTIAL, {"reprocess": Reprocess.COMPLETED}, (), id="in order, all again"),
        pytest.param(WORK, {"limits": {"pool": "nowhere"}}, ("no_such_pool",), id="no such pool"),
        pytest.param(WORK, {"params": Params({"x": ParamSpec()})}, ("params_changed",), id="K09, other parameters"),
        pytest.param(WORK, {"start_date": utc(2024, 6, 1), "end_date": utc(2024, 6, 9)}, ("no_dates",), id="K09, the future"),
        pytest.param(WORK, {"dag_id": "other"}, ("no_such_dag",), id="K09, unknown"),
    ],
)
async def test_requests_that_cannot_work_are_rejected(
    world: World, task: TaskSpec, facts: dict[str, Any], reasons: tuple[str, ...]
) -> None:
    await world.file(daily(task))

    assert (await asked(world, **facts))[1] == reasons


async def test_k09_a_dag_may_allow_none(world: World) -> None:
    await world.file(daily(allow_backfills=False))

    assert (await asked(world))[1] == ("not_possible",)


@pytest.mark.parametrize("timetable", [None, Once()])
async def test_k09_a_range_needs_a_timetable_with_dates(world: World, timetable: Any) -> None:
    await world.file(daily(timetable=timetable))

    assert (await asked(world))[1] == ("no_dates",)


async def test_k07_what_was_asked_for_is_on_the_row(world: World) -> None:
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 1)")
    await world.file(daily(params={"n": ParamSpec(default=1)}))
    spec = BackfillSpec(
        dag_id="d",
        start_date=day(1),
        end_date=day(9),
        logical_dates=(day(1), day(9)),
        dag_params={"n": 2},
        reprocess=Reprocess.COMPLETED,
        is_reverse=True,
        outlets=Outlets.NONE,
        description="new prices",
        max_active_runs=3,
        max_active_tasks=2,
        share=0.5,
        pool="few",
        priority=-7,
        max_failed_runs=4,
    )
    id_ = await world.database.run(backfills.reserve)

    await world.tell(
        BackfillRequested(backfill_id=id_, params=Params({"n": ParamSpec(default=1)}), **msgspec.structs.asdict(spec))
    )

    row = (await world.database.run(backfills.lock, [id_]))[id_]
    assert {name: getattr(row, name) for name in spec.__struct_fields__} == msgspec.structs.asdict(spec)


async def test_a_million_dates_take_as_many_statements_as_one(world: World) -> None:
    await world.file(daily(timetable=Cron(("* * * * *",))))

    applied = [
        await world.tell(BackfillRequested(backfill_id=id_, dag_id="d", start_date=start, end_date=end))
        for id_, start, end in ((1, day(1), day(1)), (2, day(2), day(2)), (3, utc(2020, 1, 1), utc(2022, 1, 1)))
    ]

    assert applied[1].statements == applied[2].statements  # The first one also read the version.
    assert await world.rows("SELECT state::text, dates FROM backfill") == [("planned", 0)] * 3
    assert await world.runs() == []


async def test_k10_dates_that_are_not_due_get_no_run(world: World) -> None:
    await world.file(daily(timetable=Cron(("0 0 * * *",), mode="interval")))

    id_ = await created(world, 29, 29, end_date=utc(2024, 5, 9), limits={"max_active_runs": 20})

    assert [found[1] for found in await dates(world, id_)] == [29, 30]
    assert await world.rows("SELECT is_planned FROM backfill") == [(True,)]


@pytest.mark.parametrize(
    ("reprocess", "outcome", "fate"),
    [
        pytest.param(Reprocess.NONE, "succeeded", "skipped", id="none"),
        pytest.param(Reprocess.FAILED, "succeeded", "skipped", id="failed, of a success"),
        pytest.param(Reprocess.FAILED, "failed", "open", id="failed"),
        pytest.param(Reprocess.COMPLETED, "succeeded", "open", id="completed"),
    ],
)
async def test_k08_an_existing_run_runs_again_with_the_newest_version_or_stays(
    world: World, reprocess: Reprocess, outcome: str, fate: str
) -> None:
    await world.file(daily())
    await world.tell(RunRequested(dag_id="d", run_id="mine", conf={"a": 1}, logical_date=day(2)))
    await world.tick()
    await world.work(outcome)
    await world.file(daily(WORK, CommandTask(task_id="more", argv=("true",))))

    id_ = await created(world, 2, 2, reprocess=reprocess)

    assert await dates(world, id_) == [(1, 2, fate, "mine")]
    newest = "SELECT run.version_id = dag.version_id, run.backfill_id FROM dag_run AS run JOIN dag USING (dag_id)"
    if fate == "open":
        assert await world.rows(newest) == [(True, id_)]
        assert await world.tasks("mine") == {"work": "scheduled", "more": "scheduled"}
        await work(world)
        assert await dates(world, id_) == [(1, 2, "success", "mine")]
    else:
        assert await world.rows(newest) == [(False, None)]
        assert await state_of(world, id_) == "success"
    await counts_agree(world)


async def test_a_step_is_bounded_by_tasks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of some thousand tasks each could exceed the time of a statement, so that no step ever ended."""
    for module in ("backfill_due", "scheduling.read_plan"):
        monkeypatch.setattr(f"tidegate.handlers.{module}.TASKS_PER_DECISION", 4)
    await world.file(daily(WORK, CommandTask(task_id="more", argv=("true",))))
    many = {"max_active_runs": 5}

    first, rejected = await asked(world, 1, 5, limits=many)
    assert rejected == ()
    assert await runs_of_steps(world, first) == [2, 4, 5, 5, 5, 5]
    await act(world, first, BackfillAction.CANCEL, kills=True)
    assert states(await world.runs()) == ["failed"] * 5
    assert await act(world, first, BackfillAction.RETRY) == ()
    await settle(world)
    assert states(await world.runs()) == ["running"] * 5
    while await state_of(world, first) != "success":
        await work(world)

    again, rejected = await asked(world, 1, 5, limits=many, reprocess=Reprocess.COMPLETED)
    assert rejected == ()
    assert await runs_of_steps(world, again) == [2, 2, 4, 4, 5, 5]  # what is queued again starts at the next step
    await counts_agree(world)


async def runs_of_steps(world: World, backfill_id: int) -> list[int]:
    """How many runs are those of the backfill after each of its first steps."""
    found: list[int] = []
    for _ in range(6):
        await world.tell(BackfillDue(backfill_id=backfill_id))
        found += (await world.rows("SELECT count(*)::integer FROM dag_run WHERE backfill_id = $1", backfill_id))[0]
    return found


async def test_a_run_that_failed_before_it_started_runs(world: World) -> None:
    await world.file(daily(max_active_runs=1))
    await world.tell(RunRequested(dag_id="d", run_id="first", conf={}))
    await world.tell(RunRequested(dag_id="d", run_id="mine", conf={}, logical_date=day(2)))
    await world.tell(RunEndRequested(dag_id="d", run_id="mine", state=RunState.FAILED, reason="no"))
    await world.file(daily(WORK, CommandTask(task_id="more", argv=("true",))))

    id_ = await created(world, 2, 2, reprocess=Reprocess.FAILED)

    assert await world.tasks("mine") == {"work": "scheduled", "more": "scheduled"}
    await work(world)
    assert await state_of(world, id_) == "success"


async def test_an_active_run_is_left_alone(world: World) -> None:
    await world.file(daily())
    await world.tell(RunRequested(dag_id="d", run_id="mine", conf={}, logical_date=day(2)))
    await world.tick()

    id_ = await created(world, 2, 2, reprocess=Reprocess.COMPLETED)

    assert await world.rows("SELECT state::text, reason FROM backfill_date") == [("skipped", "its run 'mine' is running")]
    assert await state_of(world, id_) == "success"


async def test_k12_a_cancel_ends_queued_runs_and_leaves_running_ones(world: World) -> None:
    await world.file(daily())
    id_ = await created(world)
    await act(world, id_, BackfillAction.PAUSE)
    await world.admit()
    await world.submit()
    first, second = await world.attempts()
    await world.finish(first)
    await settle(world)
    await world.tell(ClearRequested(dag_id="d", run_id=run_of(1)))
    await settle(world)
    assert await world.runs() == [(run_of(1), "queued"), (run_of(2), "running")]

    assert await act(world, id_, BackfillAction.CANCEL) == ()

    assert await world.runs() == [(run_of(1), "failed"), (run_of(2), "running")]
    assert await state_of(world, id_) == "cancelling"
    await counts_agree(world)
    await world.finish(second)
    await settle(world)
    assert await dates(world, id_) == [(1, 1, "cancelled", run_of(1)), (2, 2, "success", run_of(2))]
    assert await state_of(world, id_) == "cancelled"
    assert await world.rows("SELECT run_end_date IS NOT NULL FROM backfill") == [(True,)]
    assert await act(world, id_, BackfillAction.CANCEL) == ("not_possible",)
    await counts_agree(world)


async def test_a_cancel_ends_running_runs_that_wait_for_a_failed_one(world: World) -> None:
    """Nothing else would: they are not at work, and the failed run runs again only by a retry, which a cancel refuses."""
    await world.file(daily(SEQUENTIAL))
    id_ = await created(world, 1, 3, **IN_ORDER)
    await work(world, "failed")
    assert states(await world.runs()) == ["failed", "running", "running"]

    assert await act(world, id_, BackfillAction.CANCEL) == ()

    assert [found[2] for found in await dates(world, id_)] == ["failed", "cancelled", "cancelled"]
    assert await state_of(world, id_) == "cancelled"
    await counts_agree(world)


async def test_a_run_that_comes_to_wait_for_a_failed_one_after_the_cancel_ends(world: World) -> None:
    await world.file(daily(WORK, msgspec.structs.replace(SEQUENTIAL, task_id="more", upstream=("work",))))
    id_ = await created(world, 1, 2, **IN_ORDER)
    await world.admit()
    await world.submit()
    first, second = await world.attempts()
    await world.finish(first)
    await world.admit()
    await world.submit()
    (failing,) = set(await world.attempts()) - {first, second}
    await act(world, id_, BackfillAction.CANCEL)
    await world.finish(failing, "failed")
    await settle(world)
    assert (states(await world.runs()), await state_of(world, id_)) == (["failed", "running"], "cancelling")
    await world.finish(second)
    await settle(world)

    assert [found[2] for found in await dates(world, id_)] == ["failed", "cancelled"]
    assert await state_of(world, id_) == "cancelled"
    await counts_agree(world)


async def test_a_cancel_with_kill_ends_running_runs_too(world: World) -> None:
    await world.file(daily())
    id_ = await created(world)
    await world.admit()
    await world.submit()

    await act(world, id_, BackfillAction.CANCEL, kills=True)

    assert states(await world.runs()) == ["failed", "failed"]
    assert await world.rows("SELECT desired_state FROM submission") == [("kill",), ("kill",)]
    assert await state_of(world, id_) == "cancelled"
    await counts_agree(world)


async def test_a_cleared_run_of_a_cancelled_backfill_runs_under_the_limits_of_its_dag(world: World) -> None:
    """Users of a peer saw it queued for ever."""
    await world.file(daily())
    id_ = await created(world, 1, 1)
    await act(world, id_, BackfillAction.CANCEL, kills=True)
    await world.submit()

    await world.tell(ClearRequested(dag_id="d", run_id=run_of(1)))
    await settle(world)

    assert await world.runs() == [(run_of(1), "running")]
    assert await world.rows("SELECT backfill_id FROM dag_run") == [(None,)]


async def test_a_run_that_is_cleared_while_its_backfill_is_cancelled_leaves_it(world: World) -> None:
    """Its end was not counted yet."""
    await world.file(daily())
    id_ = await created(world, 1, 1)
    await world.admit()
    await world.submit()
    await world.tell(BackfillActed(backfill_id=id_, action=BackfillAction.CANCEL))
    await world.tick()
    await world.finish((await world.attempts())[0])

    await world.tell(ClearRequested(dag_id="d", run_id=run_of(1)))
    await settle(world)

    assert await state_of(world, id_) == "cancelled"
    assert (await dates(world, id_), await world.runs()) == ([(1, 1, "cancelled", run_of(1))], [(run_of(1), "running")])
    await counts_agree(world)


async def test_a_rerun_gets_the_defaults_of_parameters(world: World) -> None:
    params = Params({"a": ParamSpec(default=1), "b": ParamSpec(default=2)})
    await world.file(daily(params=params.specs))
    await created(world, 1, 1, params=params)
    await work(world)

    await created(world, 1, 1, params=params, dag_params={"a": 7}, reprocess=Reprocess.COMPLETED)

    assert await world.rows("SELECT conf FROM dag_run") == [({"a": 7, "b": 2},)]


async def test_k13_a_paused_backfill_starts_nothing_until_it_is_resumed(world: World) -> None:
    await world.file(daily())
    id_ = await created(world)

    await act(world, id_, BackfillAction.PAUSE)
    await work(world)

    assert states(await world.runs()) == ["success", "success"]
    assert await act(world, id_, BackfillAction.PAUSE) == ("not_possible",)
    await act(world, id_, BackfillAction.RESUME)
    assert states(await world.runs()) == ["success", "success", "running", "running"]
    assert await act(world, id_, BackfillAction.RESUME) == ("not_possible",)


async def test_a_backfill_of_a_paused_dag_waits_until_the_dag_is_unpaused(world: World) -> None:
    await world.file(daily())
    await world.tell(PauseRequested(dag_id="d", is_paused=True))

    id_ = await created(world)

    assert (await state_of(world, id_), await world.runs()) == ("planned", [])
    await world.tell(PauseRequested(dag_id="d", is_paused=False))
    await settle(world)
    assert states(await world.runs()) == ["running", "running"]


async def test_k16_tasks_of_other_runs_come_first(world: World) -> None:
    await world.file(daily())
    await created(world)
    await world.tell(RunRequested(dag_id="d", run_id="mine", conf={}))

    await world.admit(limit=1)

    assert await world.tasks("mine") == {"work": "queued"}
    assert await world.rows("SELECT DISTINCT rank - $1::int FROM task_instance WHERE rank > 100", -LAST_PRIORITY) == [(-1,)]


async def test_k18_it_ends_with_its_last_run(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, 1, 2)
    await world.admit()
    await world.submit()
    first, second = await world.attempts()

    await world.finish(first)
    await settle(world)
    assert await state_of(world, id_) == "running"
    await world.finish(second)
    await settle(world)

    assert await state_of(world, id_) == "success"
    assert await world.rows("SELECT run_start_date <= run_end_date, dates FROM backfill") == [(True, 2)]


async def test_a_run_that_has_ended_counts_before_the_clock_closes_its_date(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, 1, 2)
    await world.admit()
    await world.submit()
    (first, second) = await world.attempts()

    await world.finish(first, "succeeded")
    await world.finish(second, "failed")

    before = await world.database.run(read_backfill, id_)
    assert await world.rows("SELECT count(*) FROM backfill_date WHERE state = 'open'") == [(2,)]
    await settle(world)
    after = await world.database.run(read_backfill, id_)
    counts = ("succeeded", "failed", "running", "tasks", "tasks_succeeded", "tasks_failed")
    assert [getattr(before, name) for name in counts] == [1, 1, 0, 2, 1, 1] == [getattr(after, name) for name in counts]


async def test_k20_backfills_end_one_by_one(world: World) -> None:
    await world.file(daily())
    first = await created(world, 1, 1)
    second = await created(world, 2, 2)
    await world.admit()
    await world.submit()

    await world.finish((await world.attempts())[0], "failed")
    await settle(world)

    assert (await state_of(world, first), await state_of(world, second)) == ("failed", "running")


async def test_k21_its_tasks_obey_pools(world: World) -> None:
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 1)")
    await world.file(daily())
    await created(world, 1, 2, limits={"pool": "few"})

    await world.admit()

    assert await world.rows("SELECT pool, state::text FROM task_instance ORDER BY order_at") == [
        ("few", "queued"),
        ("few", "scheduled"),
    ]


async def test_pages_say_which_limits_of_its_pool_a_task_waits_for(world: World) -> None:
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 2)")
    await world.file(daily())
    id_ = await created(world, 1, 3, limits={"pool": "few", "share": 0.5, "max_active_runs": 3})
    await world.admit()
    await world.rows("DELETE FROM task_instance WHERE dag_run_id = (SELECT max(id) FROM dag_run)")
    await world.rows("UPDATE dag_run SET state = 'queued' WHERE id = (SELECT max(id) FROM dag_run)")
    settings = Settings(postgres_dsn="", kafka_servers="")

    async def read(db: Db) -> tuple[RunProgress, TaskExplanation, TaskExplanation, PoolQueue]:
        _, second, third = [await find_run(db, "d", run_of(number)) for number in (1, 2, 3)]
        waits, unstarted = [await read_task_why_not(db, row, "work", settings) for row in (second, third)]
        return await read_run_progress(db, second, settings), waits, unstarted, await read_queue(db, "few", settings, 9)

    async def read_dates(db: Db) -> list[DateRow]:
        own = Settings(postgres_dsn="", kafka_servers="", parallelism=1)
        return await with_reasons(db, await read_backfill(db, id_), await list_dates(db, id_, None, 0, 9), own)

    dates = await world.database.run(read_dates)
    progress, waits, unstarted, queue = await world.database.run(read)
    await world.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'a test'")
    held, why_held, why_queued, held_queue = await world.database.run(read)

    await world.database.pool.execute("UPDATE dag_version SET spec = '{}'")
    world.database.clear_memory()
    unreadable = await world.database.run(partial(read_queue, name="few", settings=settings, limit=9))

    share, hold = BackfillLimit(id_, "share", 1), DagHeld("a test")
    without_daemon = f"{Parallelism(1).text}; a daemon: none is alive"
    assert [without_daemon in date.reason for date in dates] == [False, True, False]
    assert unreadable == held_queue
    assert [task.blocked_by for task in progress.waiting] == [task.blocked_by for task in queue.queue] == [(share,)]
    assert [task.blocked_by for task in held.waiting] == [task.blocked_by for task in held_queue.queue] == [(hold, share)]
    assert [gate.facts["pool"] for page in (waits, unstarted) for gate in page.gates if gate.name == "pool"] == ["few", "few"]
    assert [[gate.reason for gate in page.closed if gate.name == "hold"] for page in (why_held, why_queued)] == [[hold], [hold]]


@pytest.mark.parametrize(
    ("limits", "active"),
    [
        pytest.param({"max_active_tasks": 3}, 3, id="tasks"),
        pytest.param({"share": 0.5, "pool": "few"}, 5, id="share"),
        pytest.param({"share": 0.01, "pool": "few"}, 1, id="at least one slot"),
        pytest.param({"max_active_tasks": 3, "share": 0.2, "pool": "few"}, 2, id="both"),
        pytest.param({"share": 0.5, "pool": "endless"}, 8, id="a part of any number"),
    ],
)
async def test_its_tasks_keep_limits_over_all_its_runs(world: World, limits: dict[str, Any], active: int) -> None:
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 10), ('endless', -1)")
    await world.file(daily(WORK, CommandTask(task_id="more", argv=("true",))))
    id_ = await created(world, 1, 4, limits={"max_active_runs": 4, **limits})
    await world.tell(RunRequested(dag_id="d", run_id="mine", conf={}))
    await settle(world)

    for _ in range(3):
        await world.admit()

    sql = "SELECT count(*) FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id AND run.backfill_id = $1"
    assert await world.rows(f"{sql} WHERE task.state = 'queued'", id_) == [(active,)]
    assert set((await world.tasks("mine")).values()) == {"queued"}
    while await state_of(world, id_) != "success":
        await work(world)


async def test_a_full_backfill_holds_up_no_other(world: World) -> None:
    """Its tasks have waited for longest, and are first by priority."""
    await world.file(daily(*(CommandTask(task_id=f"t{number}", argv=("true",)) for number in range(30)), max_active_tasks=99))
    await created(world, 1, 1, limits={"max_active_tasks": 1, "priority": 100})
    await world.wait(seconds=61)
    await world.tell(RunRequested(dag_id="d", run_id="mine", conf={}))
    await settle(world)

    await world.admit(limit=4)
    await world.admit(limit=4)

    assert list((await world.tasks(run_of(1))).values()).count("queued") == 1
    assert list((await world.tasks("mine")).values()).count("queued") == 4


@pytest.mark.parametrize(("of_dag", "runs"), [(1, 1), (16, 10)])
async def test_without_a_limit_it_has_as_many_runs_as_its_dag_at_most_ten(world: World, of_dag: int, runs: int) -> None:
    """Runs of a DAG that allows one at a time would overwrite each other's table."""
    await world.file(daily(max_active_runs=of_dag))

    await created(world, 1, 12, limits={})

    assert states(await world.runs()) == ["running"] * runs


async def test_its_runs_do_not_count_for_the_limit_of_the_dag_nor_the_other_way_round(world: World) -> None:
    await world.file(daily(max_active_runs=1))

    await world.tell(RunRequested(dag_id="d", run_id="mine", conf={}))
    await created(world)
    await world.tell(RunRequested(dag_id="d", run_id="next", conf={}))

    assert dict(await world.runs()) == {run_of(1): "running", run_of(2): "running", "mine": "running", "next": "queued"}
    await work(world)
    assert dict(await world.runs())["next"] == "running"


async def test_the_limit_changes_while_it_runs(world: World) -> None:
    await world.file(daily())
    id_ = await created(world)

    await world.tell(BackfillChanged(backfill_id=id_, changes={"max_active_runs": 4}))
    await settle(world)

    assert states(await world.runs()) == ["running"] * 4
    await world.tell(BackfillChanged(backfill_id=id_, changes={"max_active_runs": 1}))
    await work(world)
    assert states(await world.runs()) == ["success"] * 4 + ["running"]


async def test_the_time_left_follows_a_change_of_limits(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, 1, 16, limits={"max_active_runs": 4})
    for _ in range(2):
        await world.wait(minutes=1)
        await work(world)
    before = await world.database.run(progress_of, id_)

    await world.tell(BackfillChanged(backfill_id=id_, changes={"max_active_runs": 1}))
    for _ in range(2):
        await world.wait(minutes=10)
        await work(world)
    after = await world.database.run(progress_of, id_)

    assert (before.finished, after.finished) == (8, 13)
    assert (before.left_s, before.per_hour) == pytest.approx((120, 240), rel=0.1)
    assert (after.left_s, after.per_hour) == pytest.approx((720, 15), rel=0.1)


async def progress_of(db: Db, id_: int) -> Progress:
    return await read_progress(db, await read_backfill(db, id_))


async def test_a_change_of_limits_that_were_changed_since_is_refused(world: World) -> None:
    await world.file(daily())
    id_ = await created(world)
    seen = limits_version((await world.database.run(backfills.lock, [id_]))[id_])

    await world.tell(BackfillChanged(backfill_id=id_, changes={"max_active_runs": 4}, expected=seen))
    (rejected,) = (await world.tell(BackfillChanged(backfill_id=id_, changes={"max_active_runs": 5}, expected=seen))).rejected

    assert rejected.message == f"backfill {id_} was changed meanwhile; read it again, and repeat the change"


async def test_waiting_tasks_follow_a_new_pool_and_priority(world: World) -> None:
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 1)")
    await world.file(daily())
    id_ = await created(world, 1, 1)

    await world.tell(BackfillChanged(backfill_id=id_, changes={"pool": "few", "priority": 7}))

    assert await world.rows("SELECT pool, rank FROM task_instance") == [("few", -8)]


async def test_enough_failures_stop_it_and_a_retry_goes_on(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, limits={"max_active_runs": 1, "max_failed_runs": 2})
    await work(world, "failed")
    await work(world, "failed")

    assert await state_of(world, id_) == "failed"
    assert await world.rows("SELECT stop_reason, dates FROM backfill") == [("2 of its dates failed, and it stops at 2", 2)]

    assert await act(world, id_, BackfillAction.RETRY) == ()
    assert await state_of(world, id_) == "running"
    while await state_of(world, id_) != "success":
        await work(world)
        await counts_agree(world)
    assert [found[2] for found in await dates(world, id_)] == ["success"] * 5
    assert await act(world, id_, BackfillAction.RETRY) == ("not_possible",)


async def test_one_that_is_about_to_stop_goes_on_if_it_may_fail_more(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, limits={"max_active_runs": 2, "max_failed_runs": 1})
    await world.admit()
    await world.submit()
    first, second = await world.attempts()
    await world.finish(first, "failed")
    await settle(world)
    assert await world.rows("SELECT stop_reason <> '' FROM backfill") == [(True,)]

    await world.tell(BackfillChanged(backfill_id=id_, changes={"max_failed_runs": 2}))
    await world.finish(second)
    await settle(world)

    assert await world.rows("SELECT state::text, stop_reason, dates FROM backfill") == [("running", "", 4)]


async def test_a_retry_runs_failed_tasks_again_and_no_others(world: World) -> None:
    await world.file(daily(WORK, CommandTask(task_id="more", argv=("true",), upstream=("work",))))
    id_ = await created(world, 1, 1)
    await work(world)
    await work(world, "failed")
    assert await state_of(world, id_) == "failed"

    await act(world, id_, BackfillAction.RETRY)

    assert await world.tasks(run_of(1)) == {"work": "success", "more": "scheduled"}
    await work(world)
    assert await state_of(world, id_) == "success"
    await counts_agree(world)


async def test_a_retry_keeps_a_newer_version_of_a_run(world: World) -> None:
    """With the older one, a task that the newer one lacks would begin anew, and the ids of its attempts repeat."""
    await world.file(daily(WORK, CommandTask(task_id="more", argv=("true",))))
    id_ = await created(world, 1, 1)
    await work(world, "failed")
    await world.file(daily())
    await world.tell(ClearRequested(dag_id="d", run_id=run_of(1), newest_version=True))
    await settle(world)
    await work(world, "failed")

    await act(world, id_, BackfillAction.RETRY)
    await work(world)

    assert await world.rows("SELECT run.version_id = dag.version_id FROM dag_run AS run JOIN dag USING (dag_id)") == [(True,)]
    assert (await state_of(world, id_), await world.runs()) == ("success", [(run_of(1), "success")])


async def test_a_retry_runs_what_follows_a_failed_task_again(world: World) -> None:
    """A user ended the run, which skipped what had not begun."""
    await world.file(daily(WORK, CommandTask(task_id="more", argv=("true",), upstream=("work",))))
    id_ = await created(world, 1, 1)
    await world.admit()
    await world.submit()
    await world.tell(RunEndRequested(dag_id="d", run_id=run_of(1), state=RunState.FAILED, reason="no"))
    for attempt in await world.attempts():
        await world.finish(attempt, "killed")
    await settle(world)
    assert await world.tasks(run_of(1)) == {"work": "failed", "more": "skipped"}

    await act(world, id_, BackfillAction.RETRY)
    await work(world)
    await work(world)

    assert await world.tasks(run_of(1)) == {"work": "success", "more": "success"}
    assert await state_of(world, id_) == "success"


async def test_a_retry_leaves_a_run_that_has_succeeded_meanwhile(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, 1, 1)
    await work(world, "failed")
    await world.tell(ClearRequested(dag_id="d", run_id=run_of(1)))
    await settle(world)
    await work(world)

    await act(world, id_, BackfillAction.RETRY)

    assert await state_of(world, id_) == "success"
    assert await world.rows("SELECT try_number FROM task_instance") == [(2,)]


@pytest.mark.parametrize("kills", [True, False])
async def test_a_cancelled_one_goes_on_after_a_retry(world: World, *, kills: bool) -> None:
    """Its failed and its killed date run again, and then the dates that were not planned."""
    await world.file(daily(WORK, CommandTask(task_id="more", argv=("true",))))
    id_ = await created(world, 1, 4, limits={"max_active_runs": 1})
    await work(world, "failed")
    await world.admit()
    await world.submit()
    await act(world, id_, BackfillAction.CANCEL, kills=kills)
    for attempt in await world.attempts():
        await world.finish(attempt, "killed" if kills else "succeeded")
    await settle(world)
    assert await state_of(world, id_) == "cancelled"
    assert [found[2] for found in await dates(world, id_)] == ["failed", "cancelled" if kills else "success"]
    await counts_agree(world)

    assert await act(world, id_, BackfillAction.RETRY) == ()
    assert await state_of(world, id_) == "running"
    while await state_of(world, id_) == "running":
        await work(world)
        await counts_agree(world)

    assert await state_of(world, id_) == "success"
    assert [found[2] for found in await dates(world, id_)] == ["success"] * 4
    assert set(await world.rows("SELECT state::text FROM task_instance")) == {("success",)}


async def test_a_killed_backfill_without_a_failed_date_is_retried(world: World) -> None:
    await world.file(daily())
    id_ = await created(world)
    await world.admit()
    await world.submit()
    await act(world, id_, BackfillAction.CANCEL, kills=True)
    for attempt in await world.attempts():
        await world.finish(attempt, "killed")

    assert await act(world, id_, BackfillAction.RETRY) == ()

    assert [found[2] for found in await dates(world, id_)] == ["open"] * 2
    while await state_of(world, id_) != "success":
        await work(world)
    assert [found[2] for found in await dates(world, id_)] == ["success"] * 5


async def test_a_user_keeps_a_run_that_was_cleared_after_a_cancel(world: World) -> None:
    """It succeeded for the user: a retry counts it, and does not run it again."""
    await world.file(daily())
    id_ = await created(world, 1, 1)
    await act(world, id_, BackfillAction.CANCEL, kills=True)
    await world.tell(ClearRequested(dag_id="d", run_id=run_of(1)))
    await settle(world)
    await world.work()

    await act(world, id_, BackfillAction.RETRY)

    assert (await state_of(world, id_), await world.rows("SELECT try_number FROM task_instance")) == ("success", [(1,)])
    await counts_agree(world)


async def test_one_that_stopped_goes_on_with_a_higher_limit_also_after_its_end(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, limits={"max_active_runs": 1, "max_failed_runs": 1})
    await work(world, "failed")
    assert await state_of(world, id_) == "failed"

    assert not (await world.tell(BackfillChanged(backfill_id=id_, changes={"max_failed_runs": 2}, end_date=day(6)))).rejected
    await settle(world)
    while await state_of(world, id_) == "running":
        await work(world)
        await counts_agree(world)

    assert [found[2] for found in await dates(world, id_)] == ["failed"] + ["success"] * 5


async def test_a_run_that_is_cleared_before_its_retry_ends_with_its_backfill(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, 1, 2, limits={"max_active_runs": 1})
    await work(world, "failed")
    await work(world, "failed")
    await act(world, id_, BackfillAction.RETRY)
    await world.tell(ClearRequested(dag_id="d", run_id=run_of(2)))

    await act(world, id_, BackfillAction.CANCEL, kills=True)
    await settle(world)

    assert await state_of(world, id_) == "cancelled"
    assert await world.rows("SELECT FROM dag_run WHERE state = 'queued'") == []
    await counts_agree(world)


async def test_a_rerun_has_the_pool_and_the_priority_of_its_backfill(world: World) -> None:
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 1)")
    await world.file(daily())
    await created(world, 1, 1)
    await work(world)

    await created(world, 1, 1, reprocess=Reprocess.COMPLETED, limits={"pool": "few", "priority": 5})

    assert await world.rows("SELECT pool, rank FROM task_instance") == [("few", -6)]


async def test_a_rank_stays_in_its_type(world: World) -> None:
    await world.file(daily(CommandTask(task_id="work", argv=("true",), weight=-(2**31) + 1)))

    await created(world, 1, 1)

    assert await world.rows("SELECT rank FROM task_instance") == [(2**31 - 1,)]


async def test_a_cancel_during_a_retry_leaves_the_failures(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, limits={"max_active_runs": 1})
    for _ in range(5):
        await work(world, "failed")
    await act(world, id_, BackfillAction.RETRY)

    await act(world, id_, BackfillAction.CANCEL, kills=True)

    assert await state_of(world, id_) == "cancelled"
    assert [found[2] for found in await dates(world, id_)] == ["cancelled"] + ["failed"] * 4
    assert await world.rows("SELECT tasks, tasks_failed, tasks_skipped FROM backfill") == [(5, 4, 1)]
    await counts_agree(world)


async def test_it_can_be_extended_also_after_its_end(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, 1, 1)
    await work(world)

    await world.tell(BackfillChanged(backfill_id=id_, end_date=day(3)))
    await settle(world)

    assert await dates(world, id_) == [(1, 1, "success", run_of(1)), (2, 2, "open", run_of(2)), (3, 3, "open", run_of(3))]


@pytest.mark.parametrize(
    ("facts", "changes", "reasons"),
    [
        pytest.param({"is_reverse": True}, {"end_date": day(9)}, ("not_possible",), id="in reverse"),
        pytest.param({"logical_dates": (day(1),)}, {"end_date": day(9)}, ("not_possible",), id="a list"),
        pytest.param({}, {"end_date": day(4)}, ("not_possible",), id="shorter"),
        pytest.param({}, {"end_date": day(9)}, (), id="longer"),
        pytest.param({}, {"end_date": day(21)}, ("overlaps",), id="into another one"),
        pytest.param({}, {"changes": {"pool": "nowhere"}}, ("no_such_pool",), id="no such pool"),
    ],
)
async def test_changes_that_cannot_work_are_rejected(
    world: World, facts: dict[str, Any], changes: dict[str, Any], reasons: tuple[str, ...]
) -> None:
    await world.file(daily())
    id_ = await created(world, **facts)
    await created(world, 20, 21)

    applied = await world.tell(BackfillChanged(backfill_id=id_, **changes))

    assert tuple(rejected.reason for rejected in applied.rejected) == reasons


async def test_a_cancelled_backfill_is_not_extended_and_changes_its_limits_once_it_has_ended(world: World) -> None:
    await world.file(daily())
    id_ = await created(world)
    await act(world, id_, BackfillAction.CANCEL)
    limits, later = BackfillChanged(backfill_id=id_, changes={"share": 0.5}), BackfillChanged(backfill_id=id_, end_date=day(9))
    assert [bool((await world.tell(change)).rejected) for change in (limits, later)] == [True, True]
    assert await act(world, id_, BackfillAction.CANCEL) == ("not_possible",)
    assert await act(world, id_, BackfillAction.CANCEL, kills=True) == ()
    assert await state_of(world, id_) == "cancelled"

    assert [bool((await world.tell(change)).rejected) for change in (limits, later)] == [False, True]
    assert await world.rows("SELECT state::text, share, due_at FROM backfill") == [("cancelled", 0.5, None)]


async def test_a_backfill_that_does_not_exist_is_rejected(world: World) -> None:
    assert await act(world, 77, BackfillAction.PAUSE) == ("no_such_backfill",)
    (rejected,) = (await world.tell(BackfillChanged(backfill_id=77))).rejected
    assert rejected.message == "there is no backfill 77; `tidegate backfills list` shows all"


async def test_a_paused_one_that_has_not_begun_is_planned_again(world: World) -> None:
    await world.file(daily())
    id_, _ = await asked(world)
    await act(world, id_, BackfillAction.PAUSE)

    await world.tell(BackfillActed(backfill_id=id_, action=BackfillAction.RESUME))

    assert await state_of(world, id_) == "planned"


async def test_a_retry_waits_for_other_backfills_of_its_dates(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, 1, 1)
    await work(world, "failed")
    await created(world, 1, 1, reprocess=Reprocess.FAILED)

    assert await act(world, id_, BackfillAction.RETRY) == ("overlaps",)


async def test_a_dag_in_no_file_gets_no_backfill_and_the_one_it_has_waits_for_a_file(world: World) -> None:
    await world.file(daily())
    id_ = await created(world)
    await world.file(DagSpec(dag_id="other", tasks=(WORK,)))
    await work(world)
    assert states(await world.runs()) == ["success", "success"]

    assert (await asked(world, 9, 9))[1] == ("not_possible",)
    await world.file(DagSpec(dag_id="other", tasks=(WORK,)), daily())
    await settle(world)

    assert states(await world.runs()) == ["success", "success", "running", "running"]
    assert await state_of(world, id_) == "running"


async def test_two_daemons_start_no_more_runs_than_the_limit(world: World, dsn: str) -> None:
    """Users of a peer saw the limit exceeded by two schedulers."""
    await world.file(daily())
    id_, _ = await asked(world, 1, 20, limits={"max_active_runs": 3})

    async with connect(dsn) as second, anyio.create_task_group() as group:
        for database in (world.database, second) * 4:
            group.start_soon(apply_due, database, id_, world.at)

    assert states(await world.runs()) == ["running"] * 3
    await counts_agree(world)


async def apply_due(database: Database, id_: int, at: datetime) -> None:
    await apply_holding(database, Batch(messages=[Message(body=BackfillDue(backfill_id=id_), at=at)]))


async def test_one_that_starves_goes_on(world: World) -> None:
    """Users of a peer saw a backfill starved for ever."""
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('one', 1)")
    await world.file(daily(max_active_runs=100))
    await created(world, 1, 1, limits={"pool": "one"})
    live = CommandTask(task_id="work", argv=("true",), pool="one")
    await world.file(DagSpec(dag_id="live", tasks=(live,), max_active_runs=100))
    for number in range(20):
        await world.tell(RunRequested(dag_id="live", run_id=f"r{number}", conf={}))
    await world.wait(seconds=61)

    admitted = 0
    while (await world.runs())[0][1] == "running":
        await world.admit()
        await world.submit()
        for attempt in await world.attempts():
            await world.finish(attempt)
            admitted += 1

    assert admitted <= 8


async def test_a_deleted_one_is_gone_and_its_runs_stay(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, 1, 1)
    assert await act(world, id_, BackfillAction.DELETE) == ("not_possible",)
    await work(world)

    assert await act(world, id_, BackfillAction.DELETE) == ()

    assert await act(world, id_, BackfillAction.DELETE) == ("no_such_backfill",)
    assert await world.rows("SELECT deleted, delete_date IS NOT NULL FROM backfill") == [(True, True)]
    assert (await dates(world, id_), states(await world.runs())) == ([], ["success"])


async def test_existing_runs_are_passed_over_by_the_hundred(world: World) -> None:
    """Without the end of a run in between."""
    await world.file(daily(EmptyTask(task_id="t"), timetable=Cron(("0 * * * *",))))
    first = await created(world, 1, 1, end_date=utc(2024, 4, 28), limits={"max_active_runs": 1000})
    await settle(world)
    assert await state_of(world, first) == "success"

    again = await created(world, 1, 1, end_date=utc(2024, 4, 28, 3))

    assert await state_of(world, again) == "success"
    sql = "SELECT dates, skipped, succeeded FROM backfill WHERE id = $1"
    assert await world.rows(sql, again) == [(27 * 24 + 4, 27 * 24 + 1, 3)]
    await counts_agree(world)


async def test_its_outlets_may_tell_nothing(world: World) -> None:
    await world.file(daily(CommandTask(task_id="work", argv=("true",), outlets=("s://out",))))
    await created(world, 1, 1, outlets=Outlets.NONE)
    await created(world, 2, 2)

    await work(world)

    assert await world.rows("SELECT count(*) FROM outbox WHERE kind = 'dataset-updated'") == [(1,)]


async def test_what_users_do_is_in_the_audit_log_with_their_name(world: World) -> None:
    world.database.writer = "anna@host"
    await world.file(daily())
    id_ = await created(world)
    await act(world, id_, BackfillAction.PAUSE)
    await world.tell(BackfillChanged(backfill_id=id_, changes={"max_active_runs": 4}))

    found = await world.rows("SELECT who, what, object FROM audit_log ORDER BY id")

    done = ("created a backfill", "paused a backfill", "changed a backfill")
    assert found == [("anna@host", what, f"DAG d, backfill {id_}") for what in done]
    assert await world.rows("SELECT submitted_by, relative_fileloc FROM backfill") == [("anna@host", "dags.py")]


async def test_a_run_that_a_user_marks_otherwise_is_counted_so(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, limits={"max_active_runs": 1})
    await work(world, "failed")

    await world.tell(RunEndRequested(dag_id="d", run_id=run_of(1), state=RunState.SUCCESS, reason="fine"))
    await settle(world)

    assert (await dates(world, id_))[0] == (1, 1, "success", run_of(1))
    await counts_agree(world)


async def test_live_runs_are_created_beside_it_in_time(world: World) -> None:
    await world.file(daily(missed="all", max_active_runs=1))
    await created(world, limits={"max_active_runs": 3})

    await world.go_to(utc(2024, 5, 2) + timedelta(seconds=1))

    assert ("scheduled__2024-05-02T00:00:00+00:00", "running") in await world.runs()


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_failed_date_runs_again_though_runs_that_wait_for_it_fill_the_limit(world: World, limit: int) -> None:
    await world.file(daily(SEQUENTIAL))
    id_ = await created(world, **IN_ORDER, limits={"max_active_runs": limit})
    await work(world, "failed")
    assert states(await world.runs()) == ["failed"] + ["running"] * limit

    assert await act(world, id_, BackfillAction.RETRY) == ()

    assert states(await world.runs()) == ["running"] * (limit + 1)
    assert set((await world.tasks(run_of(1))).values()) == {"scheduled"}
    while await state_of(world, id_) != "success":
        await work(world)
        assert states(await world.runs()).count("running") <= limit
        await counts_agree(world)
    assert [found[2] for found in await dates(world, id_)] == ["success"] * 5


async def test_a_failed_date_runs_again_once_the_runs_after_it_wait(world: World) -> None:
    """They had other work when it was requested."""
    await world.file(daily(WORK, CommandTask(task_id="more", argv=("true",), upstream=("work",), depends_on_past=True)))
    id_ = await created(world, **IN_ORDER, limits={"max_active_runs": 1})
    await work(world)
    await work(world, "failed")
    await world.admit()
    await world.submit()
    await act(world, id_, BackfillAction.RETRY)
    assert states(await world.runs()) == ["failed", "running"]

    for attempt in await world.attempts():
        await world.finish(attempt)
    await settle(world)

    assert states(await world.runs()) == ["running", "running"]
    while await state_of(world, id_) != "success":
        await work(world)


async def test_a_failed_date_that_a_user_clears_runs_again_before_the_runs_that_wait_for_it(world: World) -> None:
    await world.file(daily(SEQUENTIAL))
    id_ = await created(world, **IN_ORDER)
    await work(world, "failed")

    await world.tell(ClearRequested(dag_id="d", run_id=run_of(1)))
    await settle(world)

    assert states(await world.runs()) == ["running"] * 3
    while await state_of(world, id_) != "success":
        await work(world)


async def test_a_backfill_of_a_held_dag_is_cancelled_without_a_readable_version(world: World) -> None:
    await world.file(daily())
    id_ = await created(world)
    await world.admit()
    await world.submit()
    await world.database.pool.execute("""UPDATE dag_version SET spec = '{"dag_id": 7}'""")
    await world.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'x'")
    world.database.clear_memory()

    assert await act(world, id_, BackfillAction.CANCEL, kills=True) == ()

    assert (await state_of(world, id_), states(await world.runs())) == ("cancelled", ["failed", "failed"])
    assert await world.rows("SELECT desired_state FROM submission") == [("kill",), ("kill",)]
    await counts_agree(world)


async def test_a_held_dag_keeps_the_rest_of_its_backfill(world: World) -> None:
    await world.file(daily())
    id_ = await created(world)
    await world.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'x'")

    await world.database.pool.execute("UPDATE backfill SET due_at = $1", world.at)
    await world.tell(BackfillDue(backfill_id=id_))

    assert states(await world.runs()) == ["running", "running"]
    assert await world.rows("SELECT due_at = $1 FROM backfill", world.at) == [(True,)]


async def test_a_retry_has_the_version_of_the_backfill_or_the_newest_one(world: World) -> None:
    await world.file(daily())
    id_ = await created(world, 1, 2)
    await work(world, "failed")
    await world.file(daily(WORK, CommandTask(task_id="more", argv=("true",))))

    await act(world, id_, BackfillAction.RETRY)
    assert await world.tasks(run_of(1)) == {"work": "scheduled"}
    await work(world, "failed")
    await act(world, id_, BackfillAction.RETRY, newest_version=True)

    assert await world.tasks(run_of(1)) == {"work": "scheduled", "more": "scheduled"}
    pinned = """
        SELECT backfill.version_id = dag.version_id, backfill.origin_code = version.source, audit.details ->> 'version_id'
        FROM backfill JOIN dag USING (dag_id) JOIN dag_version AS version ON version.id = dag.version_id
        CROSS JOIN (SELECT details FROM audit_log ORDER BY id DESC LIMIT 1) AS audit
    """
    (newest,) = await world.rows("SELECT version_id::text FROM dag")
    assert await world.rows(pinned) == [(True, True, *newest)]
    while await state_of(world, id_) != "success":
        await work(world)
    assert await world.rows("SELECT count(*) = count(DISTINCT submission_id) FROM submission") == [(True,)]


UNREADABLE = "UPDATE dag_version SET spec = '{}' WHERE number = 1; UPDATE dag SET held_since = now(), hold_reason = 'x'"


@pytest.mark.parametrize(
    ("before", "after", "damage"),
    [
        pytest.param(None, 7200.0, "SELECT 1", id="a timeout is new"),
        pytest.param(3600.0, None, UNREADABLE, id="the former version is unreadable and the DAG held"),
    ],
)
async def test_the_newest_version_is_also_that_of_runs_whose_tasks_wait(
    world: World, before: float | None, after: float | None, damage: str
) -> None:
    await world.file(daily(SEQUENTIAL, run_timeout_s=before))
    id_ = await created(world, **IN_ORDER, limits={"max_active_runs": 2})
    await work(world, "failed")
    assert states(await world.runs()) == ["failed", "running", "running"]
    more, late = (CommandTask(task_id=name, argv=("true",)) for name in ("more", "late"))
    late = msgspec.structs.replace(late, start_date=day(4))
    await world.file(daily(SEQUENTIAL, more, late, run_timeout_s=after))
    await world.database.pool.execute(damage)
    world.database.clear_memory()

    assert await act(world, id_, BackfillAction.RETRY, newest_version=True) == ()
    await world.database.pool.execute("UPDATE dag SET held_since = NULL, hold_reason = NULL")
    await settle(world)

    timeouts = "SELECT DISTINCT extract(epoch FROM times_out_at - start_date)::float FROM dag_run WHERE state = 'running'"
    assert await world.rows(timeouts) == [(after,)]
    versions = "SELECT version.number FROM dag_run JOIN dag_version AS version ON version.id = version_id ORDER BY dag_run.id"
    assert await world.rows(versions) == [(2,)] * 3
    while await state_of(world, id_) != "success":
        await work(world)
        await counts_agree(world)
    assert await world.rows(versions) == [(2,)] * 5
    assert await world.rows("SELECT task_id, state::text, count(*) FROM task_instance GROUP BY 1, 2 ORDER BY 1, 2") == [
        ("late", "removed", 3),
        ("late", "success", 2),
        ("more", "success", 5),
        ("work", "success", 5),
    ]


BIG = CommandTask(task_id="big", argv=("true",), pool_slots=4, weight=-1)
SMALL = tuple(CommandTask(task_id=f"t{number:02}", argv=("true",)) for number in range(30))


@pytest.mark.parametrize("share", [0.5, 0.3])
async def test_small_tasks_do_not_keep_a_large_one_out_of_the_share(world: World, share: float) -> None:
    """The share is as large as the large task, or smaller."""
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 8)")
    await world.file(daily(*SMALL, BIG, max_active_tasks=99))
    await created(world, 1, 1, limits={"share": share, "pool": "few"})
    await world.database.pool.execute(
        "UPDATE task_instance SET scheduled_at = scheduled_at - '1 s'::interval WHERE task_id = 'big'"
    )
    await world.wait(seconds=61)

    ended = 0
    while (await world.tasks(run_of(1)))["big"] == "scheduled":
        await world.admit()
        await world.submit()
        await world.finish((await world.attempts())[0])
        ended += 1

    assert ended < 10


async def test_a_large_task_that_waits_for_its_share_holds_up_no_other(world: World) -> None:
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 10)")
    large = tuple(CommandTask(task_id=f"t{number:02}", argv=("true",), pool_slots=3) for number in range(30))
    live = DagSpec(dag_id="live", tasks=(CommandTask(task_id="work", argv=("true",), pool="few"),))
    await world.file(daily(*large, max_active_tasks=99), live)
    await created(world, 1, 1, limits={"share": 0.5, "pool": "few", "priority": 100})
    await world.tell(RunRequested(dag_id="live", run_id="mine", conf={}))

    for _ in range(3):
        await world.admit(limit=2)

    assert await world.tasks("mine", "live") == {"work": "queued"}


POOLED = daily(CommandTask(task_id="work", argv=("true",), pool="own", weight=7, retries=1))


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_run_that_leaves_its_backfill_has_the_pools_and_weights_of_its_version(world: World, *, is_deleted: bool) -> None:
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 1), ('own', 1)")
    await world.file(POOLED)
    id_ = await created(world, 1, 1, limits={"pool": "few"})
    await work(world)
    if is_deleted:
        assert await act(world, id_, BackfillAction.DELETE) == ()

    await world.tell(ClearRequested(dag_id="d", run_id=run_of(1)))
    await settle(world)

    assert await world.rows("SELECT pool, rank, state::text FROM task_instance") == [("own", -7, "scheduled")]
    assert await world.rows("SELECT backfill_id FROM dag_run") == [(None,)]


async def test_another_pool_is_that_of_waiting_tasks_and_of_next_tries(world: World) -> None:
    """An active task occupies slots of its pool until its attempt ends."""
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 1), ('own', 1)")
    await world.file(POOLED)
    id_ = await created(world, 1, 2)
    await world.admit()
    await world.submit()

    await world.tell(BackfillChanged(backfill_id=id_, changes={"pool": "few", "priority": 5}))

    assert await world.rows("SELECT pool, rank FROM task_instance ORDER BY 1") == [("few", -12), ("own", 999_993)]
    await world.finish((await world.attempts())[0], "failed")
    assert await world.rows("SELECT DISTINCT pool, rank FROM task_instance") == [("few", -12)]
    await world.tell(BackfillChanged(backfill_id=id_, changes={"pool": None}))
    assert await world.rows("SELECT DISTINCT pool FROM task_instance") == [("own",)]


async def test_a_task_that_leaves_its_pool_before_its_run_is_locked_gets_no_slot_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its new pool would have more tasks at work than slots."""
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 1), ('own', 9)")
    await world.file(POOLED)
    id_, ready = await created(world, 1, 2), tasks.ready

    async def then_they_leave(*args: Any) -> Any:
        found = await ready(*args)
        await world.tell(BackfillChanged(backfill_id=id_, changes={"pool": "few"}))
        return found

    monkeypatch.setattr(tasks, "ready", then_they_leave)
    await world.admit()
    monkeypatch.undo()
    await world.admit()

    assert await world.rows("SELECT pool, state::text, count(*) FROM task_instance GROUP BY 1, 2 ORDER BY 2") == [
        ("few", "queued", 1),
        ("few", "scheduled", 1),
    ]


async def test_instances_of_a_mapped_task_are_inserted_again_with_the_pool_and_rank_of_their_run(world: World) -> None:
    await world.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('few', 9)")
    await world.file(daily(command("list"), command("each", "list", over="list")))
    await created(world, 1, 1, limits={"pool": "few"})
    await world.work(result=[1, 2])
    await work(world)
    await world.tell(ClearRequested(dag_id="d", run_id=run_of(1)))
    await settle(world)

    await world.work(result=[1, 2])

    instances = "SELECT pool, rank, state::text, try_number FROM task_instance WHERE task_index > 1000000"
    assert await world.rows(instances) == [("default_pool", -1, "scheduled", 1)] * 2


async def lagging(world: World) -> list[int]:
    """Count the backfills that lag, as the sweep does."""
    found = await world.database.run(backfill_dates.lagging)
    if found:
        await world.tell(*(BackfillLagging(backfill_id=id_) for id_ in found))
        await settle(world)
    return found


async def test_ends_and_clears_by_daemons_of_a_former_version_are_counted(world: World) -> None:
    """Such a daemon writes the run alone."""
    await world.file(daily())
    id_ = await created(world)
    assert await lagging(world) == []
    for state in ("success", "failed"):
        sql = "UPDATE dag_run SET state = $1::run_state WHERE id = (SELECT min(id) FROM dag_run WHERE state = 'running')"
        await world.database.pool.execute(sql, state)

    assert await lagging(world) == [id_]
    assert [found[2] for found in await dates(world, id_)] == ["success", "failed", "open", "open"]
    await counts_agree(world)
    await world.database.pool.execute("UPDATE dag_run SET state = 'queued' WHERE state = 'failed'")

    assert await lagging(world) == [id_]
    assert [found[2] for found in await dates(world, id_)] == ["success", "open", "open", "open"]
    await counts_agree(world)
    assert await lagging(world) == []


async def test_a_run_that_a_daemon_of_a_former_version_clears_after_the_end_leaves_its_backfill(world: World) -> None:
    await world.file(daily())
    await created(world, 1, 1)
    await work(world)
    await world.database.pool.execute("UPDATE dag_run SET state = 'queued'")

    await lagging(world)

    assert await world.rows("SELECT backfill_id, pool, priority FROM dag_run") == [(None, None, 0)]
    assert await lagging(world) == []


async def test_any_number_of_due_backfills_take_the_same_number_of_statements(world: World) -> None:
    await world.file(*(DagSpec(dag_id=f"d{number}", tasks=(WORK,), timetable=DAILY, missed="skip") for number in range(20)))
    ids = [(await asked(world, dag_id=f"d{number}"))[0] for number in range(20)]

    warm, one, others = [
        (await world.tell(*(BackfillDue(backfill_id=id_) for id_ in some))).statements for some in (ids[:1], ids[1:2], ids[2:])
    ]

    assert one == others <= warm


@pytest.mark.parametrize("ignores", [False, True])
async def test_the_first_date_waits_for_no_failed_run_before_the_range_if_asked_for(world: World, ignores: bool) -> None:
    await world.file(daily(SEQUENTIAL))
    await asked(world, 1, 1, reprocess=Reprocess.COMPLETED)
    await world.tick()
    await world.work("failed")
    await world.tick()

    id_, _ = await asked(world, 2, 4, reprocess=Reprocess.COMPLETED, ignore_first_depends_on_past=ignores)
    await world.tick()
    dates = await reasons_of(world, id_)
    await world.work()
    after = await states_of(world, 2, 3)

    first = "its tasks do not wait for the run before it: ignore_first_depends_on_past is set; "
    assert dates[0].startswith(first) == ignores
    assert ["the previous run" in reason for reason in dates] == [not ignores, True]
    assert after == (["success", "running"] if ignores else ["running", "running"])


async def reasons_of(world: World, id_: int) -> list[str]:
    """Of the planned dates of a backfill."""

    async def read(db: Db) -> list[DateRow]:
        own = Settings(postgres_dsn="", kafka_servers="")
        return await with_reasons(db, await read_backfill(db, id_), await list_dates(db, id_, None, 0, 9), own)

    return [date.reason for date in await world.database.run(read)]


async def states_of(world: World, *days: int) -> list[str]:
    found = dict(await world.runs())
    return [found[run_of(number)] for number in days]
