"""Tidegate: event-driven scheduling of Spark pipelines.

The names that DAG files import:

* pipelines: `Dag`, `Dataset`, `Param` (start with `tidegate.schemas.authoring.dag`)
* conditions over datasets: `DatasetPattern`, `n_of`, `Timed`, `InputDeadline`
* schedules by time: `cron`, `every`, `DatasetOrTime`, `DatasetsAndTime`
* secrets of the host as values of `env=` and `conf=`: `Secret`
* task functions: `Run`, their second argument, with its `ConsumedEvent`s and `OutletEvent`s; `follow`, `skip_rest` and `SkipTask` to end one
* deadlines and notifications: `Deadline`, `Email`, `Webhook`, `CallbackContext`
* annotations and tests: `Event`, `Task`, `Choice`, `TriggerRule`, `WeightRule`, `DagError`

Programs that publish events or follow runs import `tidegate.events`.
"""

from tidegate.schemas.authoring.dag import Dag
from tidegate.schemas.dag import Secret, TriggerRule, WeightRule
from tidegate.schemas.authoring.dataset import Dataset, DatasetPattern, n_of
from tidegate.schemas.error import DagError
from tidegate.schemas.authoring.callbacks import Deadline, Email, Webhook
from tidegate.schemas.notice import CallbackContext
from tidegate.schemas.authoring.params import Param
from tidegate.schemas.run import Choice, ConsumedEvent, OutletEvent, Run, SkipTask, follow, skip_rest
from tidegate.schemas.authoring.schedule import DatasetOrTime, DatasetsAndTime, InputDeadline, Timed, cron, every
from tidegate.schemas.authoring.task import Task
from tidegate.schemas.authoring.trial import Event

__all__ = [
    "CallbackContext",
    "Choice",
    "ConsumedEvent",
    "Dag",
    "DagError",
    "Dataset",
    "DatasetOrTime",
    "DatasetPattern",
    "DatasetsAndTime",
    "Deadline",
    "Email",
    "Event",
    "InputDeadline",
    "OutletEvent",
    "Param",
    "Run",
    "Secret",
    "SkipTask",
    "Task",
    "Timed",
    "TriggerRule",
    "Webhook",
    "WeightRule",
    "cron",
    "every",
    "follow",
    "n_of",
    "skip_rest",
]
