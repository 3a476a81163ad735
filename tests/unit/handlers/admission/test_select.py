"""Starving tasks: which ones an admission locks."""

from tidegate.handlers.admission.select import SPARE, select_starving
from tidegate.schemas.view import Candidate, LimitOwner, StarvingTask


def starving(index: int, *, run: int = 1, **left: int) -> StarvingTask:
    """A task of a run with capacity for two. `in_dag` and `in_run` are what its own limits admit."""
    limits: dict[LimitOwner, int] = {(run, ""): 2}
    if "in_run" in left:
        limits[run, "t"] = left["in_run"]
    if "in_dag" in left:
        limits["dag", "t"] = left["in_dag"]
    return StarvingTask(Candidate(run, index, None), limits)


def chosen(*tasks: StarvingTask, most: int = 10) -> list[tuple[int, int]]:
    return [candidate.key for candidate in select_starving(tasks, most).candidates]


def limited(count: int) -> list[StarvingTask]:
    """Instances, each in a run of its own, of a task of which one may go in all."""
    return [starving(1, run=run, in_dag=1) for run in range(100, 100 + count)]


def test_some_tasks_are_selected_beyond_each_limit() -> None:
    found = [starving(number) for number in range(SPARE + 4)]

    assert chosen(*found) == [(1, number) for number in range(SPARE + 2)]
    assert select_starving(found, 10).admissible == 2


def test_instances_of_a_limited_task_hide_no_other_task() -> None:
    found = [*limited(SPARE + 4), starving(1, run=6)]

    assert chosen(*found) == [*((run, 1) for run in range(100, 101 + SPARE)), (6, 1)]
    assert select_starving(found, 10).admissible == 2


def test_a_blocked_task_uses_nothing_of_its_other_limits() -> None:
    found = [starving(1, in_dag=1), starving(2, run=2, in_dag=1), starving(3, run=2), starving(4, run=2)]

    assert select_starving(found, 10).admissible == 3


def test_a_limit_per_run_counts_in_each_run() -> None:
    assert select_starving([starving(1, in_run=1), starving(2, in_run=1), starving(1, run=2, in_run=1)], 10).admissible == 2


def test_no_more_tasks_are_selected_than_wanted() -> None:
    assert chosen(starving(1), starving(1, run=2), starving(1, run=3), most=2) == [(1, 1), (2, 1)]
