"""What `Dag.test` takes and returns."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from tidegate.schemas.error import DagError
from tidegate.schemas.run import ConsumedEvent, HasUri
from tidegate.schemas.state import RunState, TaskState

Replacements = Mapping[str, Callable[..., Any]]
"""By task id, a function of `spark` and `run` that is called instead of the task."""


NAMED = 3
"""The discarded events that a message names."""


class Event(msgspec.Struct, frozen=True):
    """A dataset event of a test, which arrives `after` its start, on a clock of its own: `Event(flights, {"rows": 12})`.

    `dataset` becomes the URI: the event of a dataset equals that of its URI.
    """

    dataset: str | HasUri
    extra: dict[str, Any] = {}
    after: timedelta = timedelta()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "dataset", getattr(self.dataset, "uri", self.dataset))

    @property
    def uri(self) -> str:
        return self.dataset if isinstance(self.dataset, str) else self.dataset.uri


class TrialOptions(TypedDict, total=False):
    """The arguments of `Dag.test`.

    `events`: what arrives: datasets, URIs, or each as an `Event`. `params`, `logical_date`: those of a manual run, which a DAG
    without a schedule gets anyway. `replace`: functions to call instead of tasks. `spark`: the session of functions and SQL; by
    default that of `TIDEGATE_SPARK_REMOTE`, else Spark in this process, opened at its first use. `folder`: the DAG folder, in
    which tasks start; default: the working folder.
    """

    events: Sequence[Event | HasUri | str]
    params: Mapping[str, Any] | None
    logical_date: datetime | None
    replace: Replacements | None
    spark: Any
    folder: Path | None


class TaskTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a task instance. `result` is what it returned."""

    state: TaskState
    try_number: int
    reason: str = ""
    result: Any = None


class RunTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a test. `started_at` is on the clock of the test.

    `tasks` has the instances by name, such as `load` or `load[3]`. `published` are the events of outlets and of `run.publish`, in
    their order.
    """

    run_id: str
    run_type: str
    state: RunState
    started_at: datetime
    logical_date: datetime | None
    events: tuple[ConsumedEvent, ...]
    tasks: dict[str, TaskTrial]
    published: tuple[Event, ...]

    @property
    def states(self) -> dict[str, str]:
        """The states of the tasks."""
        return {name: str(task.state) for name, task in self.tasks.items()}


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a test: its runs in the order of their starts.

    `discarded` are the events that make no run, each with the reason. `waits_for` says what a further run waits for.
    """

    runs: tuple[RunTrial, ...]
    discarded: tuple[tuple[Event, str], ...] = ()
    waits_for: str = ""

    @property
    def run(self) -> RunTrial:
        """The only run. Raises DagError if there is none, or more than one."""
        if len(self.runs) == 1:
            return self.runs[0]
        raise DagError(f"there are {len(self.runs)} runs; see `runs`" if self.runs else self._no_run)

    @property
    def _no_run(self) -> str:
        discarded = "; ".join(f"{event.uri} is discarded: {reason}" for event, reason in self.discarded[:NAMED])
        return f"there is no run: the DAG waits for {self.waits_for}{discarded and f'; {discarded}'}"
