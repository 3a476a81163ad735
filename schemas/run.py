"""A run as its tasks see it, and what a task may say of how it goes on."""

from datetime import datetime
from typing import Any

import msgspec

MAX_RESULT_BYTES = 64 * 1024


class ConsumedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset event that a run consumed, as tasks see it in `run.events`."""

    uri: str
    source: str
    id: str
    occurred_at: datetime
    extra: dict[str, Any]


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a task may know of its run.

    `params` is the run's conf. `results` are what the tasks directly before this one returned, by task id. Runs by time, and
    those started by hand for a date, have a `logical_date` and a data interval; others have none. Times are in UTC.
    `task_id` is the task that is asked, at its try `try_number`, from 1. An instance of a mapped task has its element as `item`,
    and that one's place in the list as `map_index`, from 0.
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
    """What a task returns to say which of the tasks directly after it are to follow; empty for none of all that come after it."""

    task_ids: tuple[str, ...]


def follow(*task_ids: str) -> Choice:
    """To be returned by a task: of the tasks directly after it only these follow, all others are skipped."""
    return Choice(task_ids)


def skip_rest() -> Choice:
    """To be returned by a task: everything after it is skipped, however far."""
    return Choice(())


class SkipTask(Exception):  # noqa: N818 - not an error
    """To be raised by a task that has nothing to do: it ends as skipped, with the message as the reason."""
