"""A run as its tasks read it, and the ways in which a task skips itself or downstream tasks."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol, Self

import msgspec

MAX_RESULT_BYTES = 64 * 1024

MAX_RESULTS_BYTES = 1024 * 1024
"""The most JSON of all instances of a mapped task that a task after it reads. One that is mapped over them reads them singly."""

MAX_PRODUCED_BYTES = 256 * 1024
"""The most JSON that an attempt gives its outlets and the events that it publishes, in all."""

MAX_PUBLISHED = 1_000
"""The most events that an attempt publishes, apart from its outlets."""


class ConsumedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset event that a run consumed, as tasks read it in `run.events`.

    `source_dag_id` to `source_map_index` name the task that produced it; None for events of other programs.
    """

    uri: str
    source: str
    id: str
    occurred_at: datetime
    extra: dict[str, Any]
    source_dag_id: str | None = None
    source_run_id: str | None = None
    source_task_id: str | None = None
    source_map_index: int | None = None


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """The run of a task, at the current try. Times are in UTC.

    `params` is the run's conf. `results` are the results of the direct upstream tasks, by task id. Timed runs, and manual runs
    for a date, have a `logical_date` and a data interval. `try_number` counts from 1. An instance of a mapped task has its
    element as `item`, and the index of the element in the list, from 0, as `map_index`; the list is not among its `results`.
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


class HasUri(Protocol):
    """A dataset of a DAG file."""

    uri: str


class OutletEvent(msgspec.Struct, frozen=True):
    """The event of an outlet, which is published when the task succeeds. The task fills in `extra`, a JSON object."""

    uri: str
    extra: dict[str, Any]


class Outlets(Mapping[str, OutletEvent]):
    """The outlets of a task. The key is a dataset or its URI: `run.outlets[delays].extra["rows"] = 12`."""

    def __init__(self, uris: tuple[str, ...], task_id: str) -> None:
        self._events = {uri: OutletEvent(uri, {}) for uri in uris}
        self._task_id = task_id

    def __getitem__(self, dataset: str | HasUri) -> OutletEvent:
        uri = _uri_of(dataset)
        if uri not in self._events:
            known = ", ".join(self._events) or "none"
            raise KeyError(f"task {self._task_id!r} has no outlet {uri!r}; its outlets are: {known}")
        return self._events[uri]

    def __iter__(self) -> Iterator[str]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)


class Run(RunContext, frozen=True, kw_only=True):
    """The run that a function of a DAG file gets. `outlets` has the events of the outlets of its task."""

    outlets: Outlets = Outlets((), "")
    published: list[tuple[str, dict[str, Any]]] = []

    @classmethod
    def of(cls, context: RunContext, outlets: tuple[str, ...], results: dict[str, Any] | None = None) -> Self:
        """The run of a context, for a task with these outlets. `results` are those of the context."""
        fields = msgspec.structs.asdict(context) | ({} if results is None else {"results": results})
        return cls(**fields, outlets=Outlets(outlets, context.task_id), published=[])

    def publish(self, dataset: str | HasUri, extra: Mapping[str, Any] | None = None) -> None:
        """Publish a further dataset event when the task succeeds, exactly once. `extra` is a JSON object.

        Events of an attempt that fails are not published.
        """
        self.published.append((_uri_of(dataset), dict(extra or {})))


def _uri_of(dataset: str | HasUri) -> str:
    return dataset if isinstance(dataset, str) else dataset.uri


NONE_CHOSEN = "(none)"
"""In a choice, in place of the ids: no direct downstream task runs. It is the id of no task."""


class Choice(msgspec.Struct, frozen=True):
    """The result of a branching task: the ids of the direct downstream tasks that run. Empty: see `skip_rest`."""

    task_ids: tuple[str, ...]


def follow(*task_ids: str) -> Choice:
    """Return this from a task: of its direct downstream tasks these run; others are skipped unless downstream of these.

    Without ids all direct downstream tasks are skipped. What comes after those goes by its trigger rule.
    """
    return Choice(tuple(map(_task_id, task_ids)) or (NONE_CHOSEN,))


def _task_id(given: object) -> str:
    if isinstance(given, str):
        return given
    raise TypeError(f"follow: {given!r:.80} is no task id; write the id as a text, like follow('load')")


def skip_rest() -> Choice:
    """Return this from a task: all downstream tasks are skipped, except teardowns."""
    return Choice(())


class SkipTask(Exception):  # noqa: N818 - not an error
    """Raise this in a task without work: the task ends as skipped, with the message as the reason."""
