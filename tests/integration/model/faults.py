"""Seeded faults of what users do to runs at work, and of mapped tasks."""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from tests.storms.replace import replace
from tidegate.handlers import clear_requested, run_end_requested, task_marked
from tidegate.handlers.tasks import advance
from tidegate.handlers.tasks.mapping import End
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.state import TaskState


def _without_kills(handler: ModuleType) -> None:
    def decide(messages: Sequence[Any], state: Any) -> Sequence[Effect]:
        return [effect for effect in before(messages, state) if not isinstance(effect, KillSubmissions)]

    before = replace(handler, "decide", decide)


def cancelled_attempts_go_on() -> None:
    """The end of a run leaves the attempts of its tasks at work."""
    _without_kills(run_end_requested)


def attempts_of_marked_tasks_go_on() -> None:
    """A mark leaves the attempt of its task at work."""
    _without_kills(task_marked)


def attempts_of_cleared_tasks_go_on() -> None:
    """A clear leaves the attempts of its tasks at work."""
    _without_kills(clear_requested)


def last_element_left_out() -> None:
    """A mapped task has an instance less than its list has elements."""

    def element_count(task: BaseTask, over: TaskState, length: int | None) -> int | End:
        count: int | End = before(task, over, length)
        return count - 1 if isinstance(count, int) and count > 1 else count

    before = replace(advance, "element_count", element_count)


MODEL_FAULTS: Mapping[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (
        cancelled_attempts_go_on,
        attempts_of_marked_tasks_go_on,
        attempts_of_cleared_tasks_go_on,
        last_element_left_out,
    )
}

NOTICED_BY: Mapping[str, str] = {
    "cancelled_attempts_go_on": "with 1 open attempts",
    "attempts_of_marked_tasks_go_on": "with 1 open attempts",
    "attempts_of_cleared_tasks_go_on": "a cleared task keeps its attempt",
    "last_element_left_out": "mapped task",
}
"""What the rule says that is aimed at each."""
