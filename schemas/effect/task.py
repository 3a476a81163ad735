"""Task instances: their rows, their moves, their results, and whether slots may be given."""

from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.state import TaskState
from tidegate.schemas.view import Columns, Instance
from tidegate.schemas.wire.event import TaskStateChanged


class Demand(Columns):
    """What a task instance needs to be admitted. A lower `rank` leaves the queue of the pool first.

    `per_dag` and `per_run` limit how many instances of its task are active at once.
    """

    pool: str
    pool_slots: int
    rank: int
    per_dag: int | None
    per_run: int | None


class Dates(Columns):
    """When a task instance was scheduled, and when it ended. None: not by this effect."""

    scheduled_at: datetime | None
    end_date: datetime | None


class InsertTask(msgspec.Struct, frozen=True):
    """A task instance of a run that starts. `order_at` is its run's place among the runs of its DAG."""

    dag_run_id: int
    task_id: str
    order_at: datetime
    instance: Instance
    demand: Demand
    dates: Dates


class UpdateTask(msgspec.Struct, frozen=True):
    """A task instance's new state and counts. Dates of None leave the stored ones."""

    dag_run_id: int
    instance: Instance
    dates: Dates


class MoveTask(msgspec.Struct, frozen=True):
    """A task instance moves on while what it waited for stays as it is."""

    dag_run_id: int
    task_index: int
    state: TaskState
    try_number: int
    start_date: datetime | None = None


class PlaceTask(msgspec.Struct, frozen=True):
    """A waiting task instance gets the demand of its task in another version of the DAG."""

    dag_run_id: int
    task_index: int
    demand: Demand


class TaskMoved(msgspec.Struct, frozen=True):
    """Publish a task's move."""

    dag_run_id: int
    event: TaskStateChanged


class OutletUpdated(msgspec.Struct, frozen=True):
    """A task that succeeded updates a dataset: an event like any producer's, through Kafka. The id is the same at every try."""

    uri: str
    event_id: str
    extra: dict[str, Any]
    at: datetime


class StoreResult(msgspec.Struct, frozen=True):
    """What a task returned: any JSON value."""

    dag_run_id: int
    task_index: int
    value: Any


class DropResult(msgspec.Struct, frozen=True):
    """Delete the result of a task that runs again."""

    dag_run_id: int
    task_index: int


class CountAdmitted(msgspec.Struct, frozen=True):
    """Tasks got slots of a pool while others were starving."""

    pool: str
    tasks: int


class AdmitAgain(msgspec.Struct, frozen=True):
    """A pool has capacity left and more waiting tasks than were read. Performed by waking the admission."""

    pool: str


TaskEffect = (
    InsertTask
    | UpdateTask
    | MoveTask
    | PlaceTask
    | TaskMoved
    | OutletUpdated
    | StoreResult
    | DropResult
    | CountAdmitted
    | AdmitAgain
)
