"""Effects on task instances, their results, and the admission to pools."""

from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.columns import Columns
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import Instance
from tidegate.schemas.wire.event import TaskStateChanged


class Demand(msgspec.Struct, Columns):
    """The slots and limits for the admission of a task instance. A lower `rank` leaves the queue of the pool first.

    `per_dag` and `per_run` limit how many instances of its task are active at once.
    """

    pool: str
    pool_slots: int
    rank: int
    per_dag: int | None
    per_run: int | None


class Dates(msgspec.Struct, Columns):
    """When this effect schedules or ends a task instance; None: it does not."""

    scheduled_at: datetime | None
    end_date: datetime | None


class InsertTask(msgspec.Struct, frozen=True):
    """A task instance of a run that starts. `order_at` is that of its run, as in `tidegate.schemas.view.RunView`."""

    dag_run_id: int
    task_id: str
    order_at: datetime
    instance: Instance
    demand: Demand
    dates: Dates


class UpdateTask(msgspec.Struct, frozen=True):
    """A task instance's new state and counts. Its stored end is that of `dates`, None for a task that goes on."""

    dag_run_id: int
    instance: Instance
    dates: Dates


class MoveTask(msgspec.Struct, frozen=True):
    """A new state and try of a task instance; its upstream counts do not change."""

    dag_run_id: int
    task_index: int
    state: TaskState
    try_number: int
    start_date: datetime | None = None


class SetTaskDemand(msgspec.Struct, frozen=True):
    """A waiting task instance gets the demand of its task in another version of the DAG."""

    dag_run_id: int
    task_index: int
    demand: Demand


class TaskMoved(msgspec.Struct, frozen=True):
    """Publish a change of a task's state."""

    dag_run_id: int
    event: TaskStateChanged


class OutletUpdated(msgspec.Struct, frozen=True):
    """A task that succeeded updates a dataset, by an event on Kafka. The id is the same at every try."""

    uri: str
    event_id: str
    extra: dict[str, Any]
    at: datetime


class StoreResult(msgspec.Struct, frozen=True):
    """Store the return value of a task: any JSON value."""

    dag_run_id: int
    task_index: int
    value: Any


class DropResult(msgspec.Struct, frozen=True):
    """Delete the result of a task that runs again."""

    dag_run_id: int
    task_index: int


class CountAdmitted(msgspec.Struct, frozen=True):
    """Count the tasks that got slots of a pool while others were starving."""

    pool: str
    tasks: int


class AdmitAgain(msgspec.Struct, frozen=True):
    """Wake the admission: a pool may have capacity for waiting tasks that it has not admitted."""


TaskEffect = (
    InsertTask
    | UpdateTask
    | MoveTask
    | SetTaskDemand
    | TaskMoved
    | OutletUpdated
    | StoreResult
    | DropResult
    | CountAdmitted
    | AdmitAgain
)
