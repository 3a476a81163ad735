"""A run as its tasks read it, and the ways in which a task skips itself or downstream tasks."""

from datetime import datetime
from typing import Any

import msgspec

MAX_RESULT_BYTES = 64 * 1024


class ConsumedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset event that a run consumed, as tasks read it in `run.events`."""

    uri: str
    source: str
    id: str
    occurred_at: datetime
    extra: dict[str, Any]


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """The run of a task, at the current try. Times are in UTC.

    `params` is the run's conf. `results` are the results of the direct upstream tasks, by task id. Timed runs, and manual runs
    for a date, have a `logical_date` and a data interval. `try_number` counts from 1. An instance of a mapped task has its
    element as `item`, and the index of the element in the list, from 0, as `map_index`.
    """

    dag_id: str
    run_id: str
    run_type: str
    run_after: datetime
    params: dict[str, Any]
    events: tuple[ConsumedEvent, ...] = ()
    logical_date: datetime | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    results: dict[str, Any] = {}
    map_index: int | None = None
    item: Any = None
    task_id: str = ""
    try_number: int = 0

    @property
    def ds(self) -> str | None:
        """The logical date as YYYY-MM-DD, in UTC."""
        return None if self.logical_date is None else self.logical_date.date().isoformat()

    @property
    def ts(self) -> str | None:
        """The logical date with its time, in ISO 8601."""
        return None if self.logical_date is None else self.logical_date.isoformat()


class Choice(msgspec.Struct, frozen=True):
    """The result of a branching task: the ids of the direct downstream tasks that run. Empty: see `skip_rest`."""

    task_ids: tuple[str, ...]


def follow(*task_ids: str) -> Choice:
    """Return this from a task: of its direct downstream tasks these run; others are skipped unless downstream of these."""
    return Choice(task_ids)


def skip_rest() -> Choice:
    """Return this from a task: all downstream tasks are skipped, except teardowns."""
    return Choice(())


class SkipTask(Exception):  # noqa: N818 - not an error
    """Raise this in a task without work: the task ends as skipped, with the message as the reason."""
