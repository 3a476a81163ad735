"""Runs by time: made when they are due, in order, within limits, each once."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.engine.world import World, states, utc
from tidegate.daemon.read_model.history import read_history
from tidegate.daemon.read_model.lookup import find_timed_dag
from tidegate.daemon.read_model.plan import list_planned
from tidegate.daemon.read_model.why_not import read_dag_why_not
from tidegate.handlers.scheduling import read_plan, timetable
from tidegate.schemas.conditions.condition import DatasetRef
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask, ParsedFile, TaskSpec
from tidegate.schemas.message import PauseRequested, RunRequested, ScheduleDue
from tidegate.schemas.queries import dags
from tidegate.schemas.queries.run_pages import list_runs
from tidegate.schemas.timetable.spec import Cron, Once

HOURLY = Cron(("0 * * * *",))
WORK = CommandTask(task_id="work", argv=("true",))


def timed(*tasks: TaskSpec, **facts: Any) -> DagSpec:
    given = {"timetable": HOURLY, "start_date": utc(2024, 5, 1, 10), "missed": "all", **facts}
    return DagSpec(dag_id="d", tasks=tasks or (WORK,), **given)


def at(*hours: int) -> list[str]:
    return [f"scheduled__2024-05-01T{hour:02}:00:00+00:00" for hour in hours]


async def test_r01_a_due_dag_gets_a_run_that_says_who_made_it_and_the_next_one_is_known(world: World) -> None:
    world.database.author = uuid4()
    await world.file(timed(start_date=None, missed="latest"))

    await world.go_to(utc(2024, 5, 1, 13))

    sql = "SELECT run_id, created_by, run_type::text FROM dag_run"
    assert await world.rows(sql) == [(at(13)[0], world.database.author, "scheduled")]
    assert await world.rows("SELECT last_logical_date, due_at FROM dag") == [(utc(2024, 5, 1, 13), utc(2024, 5, 1, 14))]
    journal = "SELECT state::text FROM run_state_log ORDER BY seq"
    assert await world.rows(journal) == [("queued",), ("running",)]


async def test_a_run_is_created_at_the_time_of_its_decision(world: World) -> None:
    """The transaction may have begun before: it waited for the lock of the DAG, and a tick passed."""
    await world.file(timed(start_date=None, missed="latest"))

    await world.go_to(utc(2024, 5, 1, 13))

    assert await world.rows("SELECT created_at FROM dag_run") == [(utc(2024, 5, 1, 13),)]


async def test_r03_a_run_by_hand_at_the_same_time_skips_no_scheduled_one(world: World) -> None:
    await world.file(timed(start_date=None, missed="latest"))
    await world.go_to(utc(2024, 5, 1, 12, 59))

    await world.tell(RunRequested(dag_id="d", run_id="mine", conf={}))
    await world.go_to(utc(2024, 5, 1, 13))

    assert [run_id for run_id, _ in await world.runs()] == ["mine", *at(13)]


@pytest.mark.parametrize("other", ["manual", "dataset"])
async def test_r04_other_runs_do_not_move_the_schedule(world: World, other: str) -> None:
    await world.file(timed(schedule=DatasetRef("s://a"), start_date=None, missed="latest"))
    await world.tick()
    before = await world.rows("SELECT last_logical_date, due_at FROM dag")

    if other == "manual":
        await world.tell(RunRequested(dag_id="d", run_id="mine", conf={}))
    else:
        await world.updated("s://a")

    assert await world.rows("SELECT last_logical_date, due_at FROM dag") == before
    assert states(await world.runs()) == ["running"]


async def test_r05_no_more_runs_than_the_limit_are_made_however_often_one_looks(world: World) -> None:
    await world.file(timed(start_date=utc(2024, 4, 1), max_active_runs=10))

    for _ in range(5):
        await world.tick()

    assert states(await world.runs()) == ["running"] * 10


async def test_r06_when_a_run_ends_the_next_one_is_made(world: World) -> None:
    await world.file(timed(max_active_runs=1))
    await world.tick()
    assert await world.runs() == [(at(10)[0], "running")]

    await world.work()

    assert await world.runs() == [(at(10)[0], "success"), (at(11)[0], "running")]


async def test_r08_a_run_by_hand_waits_for_the_scheduled_one_that_is_at_work(world: World) -> None:
    await world.file(timed(start_date=None, missed="latest", max_active_runs=1))
    await world.go_to(utc(2024, 5, 1, 13))

    await world.tell(RunRequested(dag_id="d", run_id="mine", conf={}))
    assert dict(await world.runs()) == {at(13)[0]: "running", "mine": "queued"}
    await world.work()

    assert dict(await world.runs()) == {at(13)[0]: "success", "mine": "running"}


async def test_r10_queued_runs_start_by_logical_date(world: World) -> None:
    await world.file(timed(timetable=None, start_date=None, missed="latest", max_active_runs=1))
    await world.tell(RunRequested(dag_id="d", run_id="now", conf={}))
    for day in (3, 1, 2):
        await world.tell(RunRequested(dag_id="d", run_id=f"day {day}", conf={}, logical_date=utc(2024, 4, day)))

    order = []
    for _ in range(4):
        order += [run_id for run_id, state in await world.runs() if state == "running"]
        await world.work()

    assert order == ["now", "day 1", "day 2", "day 3"]


async def test_each_tick_has_one_run_where_many_have_one_already(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (timetable, dags):
        monkeypatch.setattr(module, "MAX_RUN_DATES", 3)
    await world.file(timed(EmptyTask(task_id="only"), start_date=utc(2024, 5, 1), missed="skip"))
    for hour in (0, 1, 2, 3, 4, 6, 7, 8):
        await world.tell(RunRequested(dag_id="d", run_id=f"{hour}", conf={}, logical_date=utc(2024, 5, 1, hour)))

    await world.file(timed(EmptyTask(task_id="only"), start_date=utc(2024, 5, 1), missed="all"))
    await world.wait(seconds=1)

    dates = [date for (date,) in await world.rows("SELECT logical_date FROM dag_run ORDER BY logical_date")]
    assert dates == [utc(2024, 5, 1, hour) for hour in range(13)]
    assert await world.rows("SELECT last_logical_date FROM dag") == [(utc(2024, 5, 1, 12),)]


async def test_a_long_queue_starts_in_parts_after_a_pause(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_plan, "MAX_RUNS", 2)
    await world.file(timed(EmptyTask(task_id="only"), timetable=None, start_date=None, missed="latest", max_active_runs=1))
    await world.tell(PauseRequested(dag_id="d", is_paused=True))
    for number in range(5):
        await world.tell(RunRequested(dag_id="d", run_id=f"r{number}", conf={}))

    await world.tell(PauseRequested(dag_id="d", is_paused=False))
    first = [state for _, state in await world.runs()]
    await world.wait(seconds=1)

    assert (first.count("success"), first.count("queued")) == (2, 3)
    assert {state for _, state in await world.runs()} == {"success"}


@pytest.mark.parametrize(("missed", "made"), [("all", at(10, 11, 12)), ("latest", at(12)), ("skip", [])])
async def test_r16_what_was_missed_is_made_up_for_as_the_dag_says(world: World, missed: str, made: list[str]) -> None:
    await world.file(timed(EmptyTask(task_id="only"), missed=missed))

    await world.tick()

    assert [run_id for run_id, _ in await world.runs()] == made


async def test_r16_after_an_outage_none_is_made_up_for_where_the_dag_says_skip(world: World) -> None:
    await world.file(timed(EmptyTask(task_id="only"), missed="skip"))
    await world.tick()

    world.clock.at = utc(2024, 5, 1, 15, 30)
    await world.tick()
    await world.go_to(utc(2024, 5, 1, 16))

    assert [run_id for run_id, _ in await world.runs()] == at(16)


async def test_r17_nothing_runs_before_the_start_date(world: World) -> None:
    await world.file(timed(start_date=utc(2024, 5, 1, 14, 30)))

    await world.go_to(utc(2024, 5, 1, 14, 59))
    assert await world.runs() == []
    await world.go_to(utc(2024, 5, 1, 15))

    assert [run_id for run_id, _ in await world.runs()] == at(15)


async def test_r17_a_task_is_no_part_of_runs_before_its_own_start_date(world: World) -> None:
    late = EmptyTask(task_id="late", upstream=("first",), start_date=utc(2024, 5, 1, 11))
    last = EmptyTask(task_id="last", upstream=("first", "late"))

    await world.file(timed(EmptyTask(task_id="first"), late, last))
    await world.tick()

    assert await world.tasks(at(10)[0]) == {"first": "success", "late": "removed", "last": "success"}
    assert await world.tasks(at(11)[0]) == {"first": "success", "late": "success", "last": "success"}


async def test_a_date_that_a_user_has_taken_gets_no_second_run(world: World) -> None:
    await world.file(timed(EmptyTask(task_id="only"), start_date=utc(2024, 5, 1, 13)))
    await world.tell(RunRequested(dag_id="d", run_id="mine", conf={}, logical_date=utc(2024, 5, 1, 13)))

    await world.go_to(utc(2024, 5, 1, 14))

    assert await world.runs() == [("mine", "success"), (at(14)[0], "success")]


async def test_a_paused_dag_is_not_looked_at_and_goes_on_with_the_latest_tick(world: World) -> None:
    await world.file(timed(EmptyTask(task_id="only"), start_date=None, missed="latest"))
    await world.tell(PauseRequested(dag_id="d", is_paused=True))
    await world.go_to(utc(2024, 5, 1, 15, 30))
    assert (await world.runs(), await world.rows("SELECT due_at FROM dag")) == ([], [(None,)])

    await world.tell(PauseRequested(dag_id="d", is_paused=False))
    await world.tick()

    assert [run_id for run_id, _ in await world.runs()] == at(15)


async def test_a_run_asked_for_later_starts_then(world: World) -> None:
    await world.file(timed(timetable=None, start_date=None, missed="latest"))
    await world.tell(RunRequested(dag_id="d", run_id="mine", conf={}, run_after=utc(2024, 5, 1, 18)))

    await world.go_to(utc(2024, 5, 1, 17, 59))
    assert await world.runs() == [("mine", "queued")]
    await world.go_to(utc(2024, 5, 1, 18))

    assert await world.runs() == [("mine", "running")]


async def test_a_dag_that_runs_once_does(world: World) -> None:
    await world.file(timed(EmptyTask(task_id="only"), timetable=Once(), start_date=None))

    await world.wait(days=3)

    assert states(await world.runs()) == ["success"]


async def test_a_new_version_keeps_the_place_in_the_schedule(world: World) -> None:
    await world.file(timed(EmptyTask(task_id="only")))
    await world.tick()

    await world.file(timed(EmptyTask(task_id="other")))
    await world.go_to(utc(2024, 5, 1, 13))

    assert [run_id for run_id, _ in await world.runs()] == at(10, 11, 12, 13)


@pytest.mark.parametrize("limit", [1, 16])
async def test_what_was_missed_starts_no_faster_than_it_may(world: World, limit: int) -> None:
    await world.file(timed(start_date=utc(2024, 4, 1), max_active_runs=limit, missed_per_minute=4))

    for _ in range(119):  # just short of two minutes
        await world.wait(seconds=1)
        await world.work()

    assert states(await world.runs()) == ["success"] * 8


async def test_r15_it_is_known_how_late_a_run_started(world: World) -> None:
    await world.file(timed(start_date=None))
    await world.go_to(utc(2024, 5, 1, 12, 59))
    world.clock.at = utc(2024, 5, 1, 13) + timedelta(seconds=9)

    await world.tick()

    (run,) = await world.database.run(list_runs)
    assert run.schedule_delay_s == 9.0


async def test_ticks_that_a_long_run_has_missed_are_told_with_the_rule(world: World) -> None:
    """A run of 150 minutes, each hour, and at most one at a time."""
    await world.file(timed(missed="latest", max_active_runs=1, start_date=None))
    await world.go_to(utc(2024, 5, 1, 13))
    await world.admit()
    await world.submit()

    await world.wait(minutes=150)
    await world.finish((await world.attempts())[0])

    (note,) = (await world.database.run(read_history, "d", None, None, 9)).notes
    rule = "max_active_runs is 1, and without catchup only the latest tick that is due makes one"
    assert (note.kind, note.reason) == ("tick_missed", f"the tick of 2024-05-01 14:00:00Z made no run: {rule}")
    assert (await world.database.run(read_dag_why_not, "d")).notes == [note]
    assert [run_id for run_id, _ in await world.runs()] == [*at(13, 15)]


async def test_an_edit_of_the_timetable_makes_no_second_run_of_the_day(world: World) -> None:
    def daily(minute: int, **facts: Any) -> DagSpec:
        return timed(timetable=Cron((f"{minute} 7 * * *",)), start_date=None, missed="latest", **facts)

    await world.file(daily(30))
    await world.go_to(utc(2024, 5, 2, 18, 58))

    await world.file(daily(45))
    await world.wait(hours=1)
    early = await world.runs()
    (planned, *_) = list_planned(await world.database.run(find_timed_dag, "d"), world.at, 1)
    await world.go_to(utc(2024, 5, 3, 8))

    assert [run_id for run_id, _ in early] == ["scheduled__2024-05-02T07:30:00+00:00"]
    assert planned.run_after == utc(2024, 5, 3, 7, 45)
    assert [run_id for run_id, _ in await world.runs()] == [early[0][0], "scheduled__2024-05-03T07:45:00+00:00"]
    reason = "the tick of 2024-05-02 07:45:00Z made no run: the timetable was changed after it"
    assert await world.rows("SELECT kind, reason FROM schedule_note") == [("tick_missed", reason)]


async def test_the_last_tick_of_a_timetable_that_is_over_makes_no_run_by_an_edit(world: World) -> None:
    """No wake-up follows: the tick is passed all the same."""
    await world.file(timed(start_date=None, missed="latest", end_date=utc(2024, 5, 1, 14)))
    await world.go_to(utc(2024, 5, 1, 18, 30))
    before = await world.runs()

    await world.file(timed(start_date=None, missed="latest", end_date=utc(2024, 5, 1, 18)))
    await world.tell(ScheduleDue(dag_id="d"))

    assert await world.runs() == before


@pytest.mark.parametrize("by_setting", [False, True])
async def test_a_new_dag_begins_paused_and_later_versions_leave_the_pause_as_users_set_it(world: World, by_setting: bool) -> None:
    spec = timed(paused=not by_setting)
    pauses = "SELECT is_paused, paused_at IS NOT NULL FROM dag"

    await world.tell(ParsedFile(path="dags.py", digest="1", dags=(spec,), pauses_new=by_setting))
    await world.go_to(utc(2024, 5, 1, 13))
    assert (await world.rows(pauses), await world.runs()) == ([(True, True)], [])

    await world.file(timed(paused=False))
    assert await world.rows(pauses) == [(True, True)]

    await world.tell(PauseRequested(dag_id="d", is_paused=False))
    await world.file(spec)
    await world.go_to(utc(2024, 5, 1, 13))
    assert (await world.rows("SELECT is_paused FROM dag"), bool(await world.runs())) == ([(False,)], True)
