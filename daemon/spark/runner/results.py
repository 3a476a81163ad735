"""The results of the tasks before a task, as it reads them."""

from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.schemas.error import did_you_mean


class Results(dict[str, Any]):
    """The results that a task reads. A key without one raises KeyError with the reason."""

    def __init__(self, results: Mapping[str, Any], upstream: Iterable[str], over: str | None = None) -> None:
        super().__init__(results)
        self._upstream = tuple(upstream)
        self._over = over

    def __missing__(self, task_id: str) -> Any:
        raise KeyError(no_result(self, task_id))

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        """Executors, which lack this class, get a plain one."""
        return dict, (dict(self),)


def no_result(results: Results, task_id: str) -> str:
    """Why there is no result of a task."""
    upstream = results._upstream
    if task_id == results._over:
        return f"there is no {task_id!r} in results: an instance has its element of that list as item"
    if task_id in upstream:
        return f"task {task_id!r} has no result: it returned None or a value that JSON does not have, or did not succeed"
    before = f"the tasks directly before it are {', '.join(upstream)}" if upstream else "no task comes before it"
    return f"there is no {task_id!r} in results{did_you_mean(task_id, upstream) or f'; {before}'}"


def results_of(spec: SubmissionSpec) -> Results:
    """What a task reads of those before it."""
    return Results(spec.run.results, spec.task.upstream, spec.task.over)
