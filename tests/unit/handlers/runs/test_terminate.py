"""A run is ended, or marked, with all its tasks."""

from collections.abc import Sequence

import msgspec
import pytest

from tests.shapes import NOW, graph, run_view
from tidegate.handlers.runs.terminate import fail, mark_success
from tidegate.handlers.runs.transition import change_run
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import NotifyBackfill
from tidegate.schemas.effect.run import RunMoved
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.effect.task import OutletUpdated, TaskMoved, UpdateTask
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance, RunView

DAG = graph("done", "works", "waits")
RUN = run_view(7, state=RunState.RUNNING, task_seq=5)
FIRST = FailedTask(task_id="done", try_number=1, reason="disk full")


def instances() -> tuple[Instance, ...]:
    states = (TaskState.FAILED, TaskState.RUNNING, TaskState.SCHEDULED)
    return tuple(Instance(index, state, try_number=2 - index) for index, state in enumerate(states))


def moves(effects: Sequence[Effect]) -> list[tuple[str, str, int, str]]:
    events = [effect.event for effect in effects if isinstance(effect, TaskMoved)]
    assert {event.at for event in events} == {NOW}
    return [(event.task_id, event.state, event.try_number, event.reason) for event in events]


def ends(effects: Sequence[Effect]) -> list[tuple[int, str, str | None, object]]:
    """The written tasks."""
    written = [(effect.instance, effect.dates) for effect in effects if isinstance(effect, UpdateTask)]
    return [(task.index, task.state, task.reason, dates.end_date) for task, dates in written]


def test_a_run_that_fails_ends_its_tasks_and_says_why() -> None:
    effects = list(fail(RUN, DAG, instances(), NOW, reason="enough", failed=(FIRST,)))

    assert effects[0] == KillSubmissions(7, None, "enough")
    assert ends(effects) == [(1, "failed", "enough", NOW), (2, "skipped", "enough", NOW)]
    assert moves(effects) == [("works", "failed", 1, "enough"), ("waits", "skipped", 0, "enough")]
    (run,) = (effect.event for effect in effects if isinstance(effect, RunMoved))
    assert (run.state, run.reason, run.at, run.failed_tasks) == ("failed", "enough", NOW, (FIRST,))


def test_a_run_that_fails_without_a_task_names_none() -> None:
    effects = fail(RUN, DAG, instances(), NOW, reason="enough")

    assert [effect.event.failed_tasks for effect in effects if isinstance(effect, RunMoved)] == [msgspec.UNSET]


def test_a_run_that_is_marked_as_succeeded_ends_all_tasks_without_outlets() -> None:
    effects = list(mark_success(RUN, DAG, instances(), NOW, "by hand"))

    assert effects[0] == KillSubmissions(7, None, "by hand")
    assert ends(effects) == [(index, "success", "by hand", NOW) for index in range(3)]
    assert moves(effects) == [
        ("done", "success", 2, "by hand"),
        ("works", "success", 1, "by hand"),
        ("waits", "success", 0, "by hand"),
    ]
    (run,) = (effect.event for effect in effects if isinstance(effect, RunMoved))
    assert (run.state, run.reason, run.at) == ("success", "by hand", NOW)
    assert not any(isinstance(effect, OutletUpdated) for effect in effects)


def of_backfill(state: str) -> RunView:
    return run_view(7, state=RunState(state), backfill_id=3)


@pytest.mark.parametrize(
    ("before", "after", "reopened"),
    [
        ("queued", "running", None),
        ("running", "running", None),
        ("success", "success", None),
        ("running", "success", False),
        ("queued", "failed", False),
        ("failed", "queued", True),
        ("failed", "success", True),
    ],
)
def test_a_backfill_is_notified_of_each_end_and_reopening(before: str, after: str, reopened: bool | None) -> None:
    effects = change_run(of_backfill(before), of_backfill(after), DAG, (), NOW)

    expected = [] if reopened is None else [NotifyBackfill(3, 7, reopened, NOW)]
    assert [effect for effect in effects if isinstance(effect, NotifyBackfill)] == expected
