"""One step of a backfill: what it counts, starts, plans and ends."""

from datetime import datetime
from typing import Any

import pytest

from tests.shapes import NOW, graph, run_view
from tests.unit.handlers.backfills.test_dates import DAILY, DAY, backfill
from tidegate.handlers.backfills.dates import Plan, PlannedDate, next_ticks
from tidegate.handlers.backfills.rerun import LockedRun
from tidegate.handlers.backfills.step import MAX_ENDS, REVISIT_AFTER, DueBackfill, ends_with_stop, take_step
from tidegate.schemas.backfill import BackfillView, EndedDate, ExistingRun, Outlets, Reprocess, Retry, TaskCounts
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import CloseDate, InsertDate, NotifyBackfill, OpenDate, TakeRun, UpdateBackfill
from tidegate.schemas.effect.run import ChangeVersion, InsertRun, RunMoved, UpdateRun
from tidegate.schemas.effect.task import InsertTask
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import BackfillState, DateState, RunState, RunType, TaskState
from tidegate.schemas.timetable.spec import Cron
from tidegate.schemas.view import Instance, QueuedRun

RUNNING = backfill(state=BackfillState.RUNNING, dates=2, planned_until=NOW - 4 * DAY)
EMPTY = graph("t!", timetable=Cron(("0 12 * * *",)))
NEWER = graph("t", "more", version_id=2, timetable=Cron(("0 12 * * *",)))


def planned(view: BackfillView, *existing: ExistingRun | None, reason: str | None = None) -> tuple[PlannedDate, ...]:
    ticks = next_ticks(view, DAILY, len(existing))
    return tuple(
        PlannedDate(view.dates + number, tick, run, reason)
        for number, (tick, run) in enumerate(zip(ticks, existing, strict=True), 1)
    )


def ended(run_id: int = 7, of: Graph = DAILY, *, tasks: bool = True, **facts: Any) -> LockedRun:
    given = {"state": RunState.FAILED, "version_id": of.version_id, "task_seq": 1 if tasks else 0, "unfinished": 0, **facts}
    instances = {0: Instance(0, TaskState.FAILED, try_number=1)} if tasks else {}
    return LockedRun(run_view(run_id, **given), of, instances)


def half_failed() -> LockedRun:
    states = (TaskState.SUCCESS, TaskState.FAILED)
    return LockedRun(ended().run, graph("a", "b"), {index: Instance(index, it, try_number=1) for index, it in enumerate(states)})


def step(view: BackfillView, graph_: Graph = DAILY, **work: Any) -> tuple[list[Effect], UpdateBackfill]:
    """The effects of a step, and the last one: how far the backfill has come."""
    plan = Plan(
        *(work.pop(name, default) for name, default in (("planned", ()), ("more_dates", False), ("has_free_slots", False)))
    )
    *effects, update = take_step(DueBackfill(backfill=view, graph=graph_, plan=plan, **work), NOW)
    assert isinstance(update, UpdateBackfill)
    return effects, update


def of(effects: list[Effect], type_: Any) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, type_)]


def test_new_dates_get_started_runs_of_the_backfill() -> None:
    view = backfill(dag_params={"a": 1}, pool="few", priority=-7, outlets=Outlets.NONE)

    effects, update = step(view, planned=planned(view, None, None), run_ids=(100, 101), more_dates=True)

    first, _ = of(effects, InsertRun)
    assert (first.id, first.run_id, first.state) == (100, "backfill__2024-04-26T12:00:00+00:00", RunState.RUNNING)
    assert (first.run_type, {moved.event.at for moved in of(effects, RunMoved)}) == (RunType.BACKFILL, {NOW})
    assert (first.backfill_id, first.pool, first.priority, first.updates_outlets) == (1, "few", -7, False)
    assert (first.conf, first.logical_date, first.run_after) == ({"a": 1}, NOW - 5 * DAY, NOW - 5 * DAY)
    assert [(task.demand.pool, task.demand.rank) for task in of(effects, InsertTask)] == [("few", 6)] * 2
    assert of(effects, InsertDate) == [
        InsertDate(1, number, NOW + (number - 6) * DAY, DateState.OPEN, 99 + number) for number in (1, 2)
    ]
    after = update.backfill
    assert (after.state, after.dates, after.is_planned, after.run_start_date) == (BackfillState.RUNNING, 2, False, NOW)
    assert (after.planned_until, update.due_at) == (NOW - 4 * DAY, None)


def test_a_date_without_a_run_has_a_reason() -> None:
    view = backfill()
    dates = planned(view, ExistingRun(7, "r7", RunState.SUCCESS), reason="so")

    effects, update = step(view, planned=dates, more_dates=True, has_free_slots=True)

    assert effects == [InsertDate(1, 1, NOW - 5 * DAY, DateState.SKIPPED, 7, "so")]
    assert (update.backfill.dates, update.backfill.skipped, update.backfill.run_start_date) == (1, 1, None)
    assert update.due_at == NOW


@pytest.mark.parametrize("tasks", [True, False])
def test_an_existing_run_runs_again_with_the_version_of_the_backfill(*, tasks: bool) -> None:
    view = backfill(version_id=2, reprocess=Reprocess.FAILED)
    dates = planned(view, ExistingRun(7, "r7", RunState.FAILED))

    effects, update = step(view, NEWER, planned=dates, runs={7: ended(tasks=tasks)}, more_dates=True)

    assert of(effects, TakeRun) == [TakeRun(7, 1, None, None, view.priority, updates_outlets=True)]
    (change,) = of(effects, ChangeVersion)
    assert (change.version_id, change.indices) == (2, ((0, 0),) if tasks else ())
    (run,) = of(effects, UpdateRun)
    assert (run.state, run.unfinished) == (RunState.QUEUED, 2)
    assert of(effects, NotifyBackfill) == [NotifyBackfill(1, 7, reopened=True, at=NOW)]
    assert of(effects, InsertDate) == [InsertDate(1, 1, NOW - 5 * DAY, DateState.OPEN, 7, again_since=NOW)]
    assert update.due_at == NOW  # It starts at the next step.


def test_an_existing_run_runs_again_whole() -> None:
    view = backfill(reprocess=Reprocess.FAILED)
    dates = planned(view, ExistingRun(7, "r7", RunState.FAILED))

    effects, _ = step(view, graph("a", "b"), planned=dates, runs={7: half_failed()}, more_dates=True)

    assert [run.unfinished for run in of(effects, UpdateRun)] == [2]


def test_a_run_of_the_same_version_stays_with_it() -> None:
    view = backfill(reprocess=Reprocess.FAILED, dag_params={"a": 1})
    dates = planned(view, *(ExistingRun(id_, "r", RunState.FAILED) for id_ in (7, 8)))

    effects, _ = step(view, planned=dates, runs={7: ended(), 8: ended(8, tasks=False)}, more_dates=True)

    assert of(effects, ChangeVersion) == []
    assert [taken.conf for taken in of(effects, TakeRun)] == [{"a": 1}] * 2


def test_queued_runs_start() -> None:
    run = run_view(7, backfill_id=1)

    effects, update = step(RUNNING, queued_runs=(QueuedRun(run, DAILY),), more_dates=True)

    assert [(moved.event.state, moved.event.at) for moved in of(effects, RunMoved)] == [(RunState.RUNNING, NOW)]
    assert (update.backfill.run_start_date, update.due_at) == (NOW, None)


@pytest.mark.parametrize(
    "work", [{"queued_runs": (QueuedRun(run_view(7), EMPTY),)}, {"planned": planned(RUNNING, None), "run_ids": (9,)}]
)
def test_a_run_that_ends_as_it_starts_is_counted_at_the_next_step(work: dict[str, Any]) -> None:
    _, update = step(RUNNING, EMPTY, more_dates=True, **work)

    assert update.due_at == NOW


@pytest.mark.parametrize("facts", [{"state": BackfillState.PAUSED}, {}])
def test_while_it_may_not_start_it_counts_only(facts: dict[str, Any]) -> None:
    view = backfill(dates=2, **{"state": BackfillState.RUNNING, **facts})

    effects, update = step(view, ended=(EndedDate(1, DateState.SUCCESS, TaskCounts(3, 2, 1, 0)),), is_inactive=not facts)

    assert effects == [CloseDate(1, 1, DateState.SUCCESS, TaskCounts(3, 2, 1, 0))]
    assert (update.backfill.state, update.backfill.succeeded) == (view.state, 1)


@pytest.mark.parametrize(
    ("view", "states", "state"),
    [
        pytest.param(backfill(dates=2, is_planned=True), "ss", BackfillState.SUCCESS, id="all succeeded"),
        pytest.param(backfill(dates=2, is_planned=True), "sf", BackfillState.FAILED, id="one failed"),
        pytest.param(backfill(dates=2, is_planned=True), "s", BackfillState.RUNNING, id="one is open"),
        pytest.param(backfill(dates=2, is_planned=True, state=BackfillState.PAUSED), "ss", BackfillState.SUCCESS, id="paused"),
        pytest.param(backfill(dates=2, max_failed_runs=2), "ff", BackfillState.FAILED, id="stopped"),
        pytest.param(
            backfill(dates=2, stop_reason="x", state=BackfillState.CANCELLING, was_cancelled=True),
            "sf",
            BackfillState.CANCELLED,
            id="cancelled",
        ),
    ],
)
def test_it_ends_with_its_last_run(view: BackfillView, states: str, state: BackfillState) -> None:
    found = {"s": DateState.SUCCESS, "f": DateState.FAILED}
    dates = tuple(EndedDate(number, found[letter], TaskCounts(1)) for number, letter in enumerate(states, 1))

    _, update = step(view, ended=dates)

    assert update.backfill.state is state
    assert update.backfill.run_end_date == (None if state is BackfillState.RUNNING else NOW)


def test_enough_failures_stop_it() -> None:
    _, update = step(backfill(dates=3, max_failed_runs=1), ended=(EndedDate(1, DateState.FAILED, TaskCounts(1, tasks_failed=1)),))

    assert update.backfill.stop_reason == "1 of its dates failed, and it stops at 1"
    assert (update.backfill.state, update.backfill.run_end_date) == (BackfillState.PLANNED, None)


def test_a_stopped_one_ends_its_queued_runs_and_gives_up_its_retries() -> None:
    view = backfill(dates=4, state=BackfillState.CANCELLING, stop_reason="enough", was_cancelled=True)
    queued = LockedRun(run_view(7, backfill_id=1), DAILY, {})
    tasks = TaskCounts(6, 1, 2, 3)
    retries = {
        2: Retry(8, is_whole=False, logical_date=NOW, tasks=tasks),
        3: Retry(9, is_whole=True, logical_date=NOW, tasks=tasks),
        4: Retry(10, is_whole=False, logical_date=NOW, was_cancelled=True, tasks=tasks),
    }

    effects, update = step(view, ending={7: 1}, retries=retries, runs={7: queued})

    said = [(moved.event.state, moved.event.reason, moved.event.at) for moved in of(effects, RunMoved)]
    assert said == [(RunState.FAILED, "enough", NOW)]
    assert of(effects, CloseDate) == [
        CloseDate(1, 1, DateState.CANCELLED, reason="enough"),
        CloseDate(1, 2, DateState.FAILED, tasks),
        CloseDate(1, 3, DateState.CANCELLED, reason="enough"),
        CloseDate(1, 4, DateState.CANCELLED, tasks, reason="enough"),
    ]
    assert (update.backfill.state, update.backfill.cancelled, update.backfill.failed) == (BackfillState.CANCELLED, 3, 1)


def test_a_killed_run_has_its_tasks_counted() -> None:
    view = backfill(dates=1, state=BackfillState.CANCELLING, stop_reason="enough", kills=True)
    states = (TaskState.SUCCESS, TaskState.RUNNING, TaskState.NONE, TaskState.REMOVED)
    tasks = {index: Instance(index, state) for index, state in enumerate(states)}
    running = LockedRun(run_view(7, backfill_id=1, state=RunState.RUNNING), graph("a", "b", "c", "d"), tasks)

    effects, _ = step(view, ending={7: 1}, runs={7: running})

    assert of(effects, CloseDate) == [CloseDate(1, 1, DateState.CANCELLED, TaskCounts(3, 1, 1, 1), reason="enough")]


@pytest.mark.parametrize(
    ("state", "task", "kills", "ends"),
    [
        (RunState.QUEUED, TaskState.SCHEDULED, False, True),
        (RunState.RUNNING, TaskState.NONE, False, True),
        *((RunState.RUNNING, task, False, False) for task in ("scheduled", "queued", "running", "up_for_retry")),
        (RunState.RUNNING, TaskState.RUNNING, True, True),
    ],
)
def test_a_stop_ends_runs_that_are_not_at_work(state: RunState, task: str, *, kills: bool, ends: bool) -> None:
    tasks = {0: Instance(0, TaskState.SUCCESS), 1: Instance(1, TaskState(task))}

    assert ends_with_stop(LockedRun(run_view(7, state=state), graph("a", "b"), tasks), kills=kills) is ends


@pytest.mark.parametrize(("facts", "due_at"), [({"stop_reason": "enough"}, NOW + REVISIT_AFTER), ({}, None)])
def test_a_stopped_one_is_visited_again_until_its_runs_have_ended(facts: dict[str, Any], due_at: datetime | None) -> None:
    """No end of a run says that another run has come to wait for a failed one."""
    _, update = step(backfill(dates=1, state=BackfillState.RUNNING, is_planned=True, **facts))

    assert update.due_at == due_at


def test_a_killed_run_is_retried_whole() -> None:
    """The end of a run skips tasks that follow no failed one."""
    tasks = {0: Instance(0, TaskState.FAILED, try_number=1), 1: Instance(1, TaskState.SKIPPED)}
    killed = LockedRun(ended().run, graph("a", "b"), tasks)
    retry = Retry(7, is_whole=False, logical_date=NOW, was_cancelled=True)

    effects, _ = step(RUNNING, graph("a", "b"), retries={1: retry}, runs={7: killed}, more_dates=True)

    assert [run.unfinished for run in of(effects, UpdateRun)] == [2]


def test_many_ends_take_several_steps() -> None:
    dates = tuple(EndedDate(number, DateState.SUCCESS, TaskCounts()) for number in range(MAX_ENDS))

    assert step(backfill(dates=5000), ended=dates)[1].due_at == NOW


def test_a_step_that_leaves_runs_is_followed_by_another_one() -> None:
    view = backfill(dates=2, succeeded=1, is_planned=True, stages=("c",), state=BackfillState.RUNNING)

    _, update = step(view, is_busy=False, leaves_runs=True)

    assert (update.backfill.stage, update.due_at) == (0, NOW)


@pytest.mark.parametrize(
    ("run", "is_whole", "again"),
    [
        pytest.param(ended(), False, True, id="failed"),
        pytest.param(ended(state=RunState.QUEUED, backfill_id=1), False, False, id="cleared by a user meanwhile"),
        pytest.param(ended(state=RunState.SUCCESS), False, False, id="marked by a user meanwhile"),
        pytest.param(ended(state=RunState.SUCCESS), True, True, id="a consumer that succeeded"),
        pytest.param(ended(state=RunState.QUEUED, backfill_id=1), True, False, id="a consumer that a user cleared"),
    ],
)
def test_a_retry_runs_a_run_again_unless_it_has_changed_since(run: LockedRun, *, is_whole: bool, again: bool) -> None:
    effects, update = step(RUNNING, retries={1: Retry(7, is_whole=is_whole, logical_date=NOW)}, runs={7: run}, more_dates=True)

    assert [moved.event.at for moved in of(effects, RunMoved)] == [NOW] * again
    assert of(effects, OpenDate) == [OpenDate(1, 1, NOW)]
    assert (update.backfill.skipped, update.due_at) == (0, NOW)


def test_a_retry_runs_the_failed_tasks_of_a_run_again() -> None:
    retries = {1: Retry(7, is_whole=False, logical_date=NOW)}

    effects, _ = step(RUNNING, graph("a", "b"), retries=retries, runs={7: half_failed()}, more_dates=True)

    assert [run.unfinished for run in of(effects, UpdateRun)] == [1]


@pytest.mark.parametrize(
    ("runs", "reason"), [({7: ended(state=RunState.RUNNING)}, "its run 'r7' is running"), ({}, "its run was deleted")]
)
def test_a_date_whose_run_is_at_work_elsewhere_or_gone_is_skipped(runs: dict[int, LockedRun], reason: str) -> None:
    effects, update = step(RUNNING, retries={1: Retry(7, is_whole=True, logical_date=NOW)}, runs=runs, more_dates=True)

    assert effects == [CloseDate(1, 1, DateState.SKIPPED, reason=reason)]
    assert update.backfill.skipped == 1


def test_each_date_that_is_skipped_counts() -> None:
    retries = {number: Retry(6 + number, is_whole=True, logical_date=NOW) for number in (1, 2, 3)}

    _, update = step(RUNNING, retries=retries, runs={9: ended(9)}, more_dates=True)

    assert update.backfill.skipped == 2


def test_a_run_without_failed_tasks_is_retried_whole() -> None:
    marked = LockedRun(ended().run, DAILY, {0: Instance(0, TaskState.SUCCESS, try_number=1)})

    effects, _ = step(RUNNING, retries={1: Retry(7, is_whole=False, logical_date=NOW)}, runs={7: marked}, more_dates=True)

    assert [run.unfinished for run in of(effects, UpdateRun)] == [1]


def test_the_last_date_ends_the_planning() -> None:
    _, update = step(RUNNING, planned=planned(RUNNING, None), run_ids=(9,))

    assert (update.backfill.is_planned, update.backfill.dates) == (True, 3)
    assert update.backfill.state is BackfillState.RUNNING
