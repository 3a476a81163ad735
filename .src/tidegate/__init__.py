"""Tidegate: event-driven scheduling of Spark pipelines.

What a DAG file needs: `Dag` and `Dataset` to write it (see `tidegate.schemas.authoring.dag`), `DatasetPattern`, `n_of`, `Timed` and
`InputDeadline` for conditions over datasets, `cron`, `every`, `DatasetOrTime` and `DatasetsAndTime` for schedules by time, `Run` and `ConsumedEvent` for what its functions get, `follow`, `skip_rest` and
`SkipTask` for what they may say, `Deadline`, `Email`, `Webhook` and `CallbackContext` for who is told what, `Task`, `Choice` and `DagError` for annotations and tests.
"""

from tidegate.schemas.authoring.dag import Dag
from tidegate.schemas.dag import TriggerRule, WeightRule
from tidegate.schemas.authoring.dataset import Dataset, DatasetPattern, n_of
from tidegate.schemas.error import DagError
from tidegate.schemas.authoring.hooks import Deadline, Email, Webhook
from tidegate.schemas.notice import CallbackContext
from tidegate.schemas.authoring.params import Param
from tidegate.schemas.run import Choice, ConsumedEvent, SkipTask, follow, skip_rest
from tidegate.schemas.run import RunContext as Run
from tidegate.schemas.authoring.schedule import DatasetOrTime, DatasetsAndTime, cron, every
from tidegate.schemas.authoring.task import Task
from tidegate.schemas.authoring.timing import InputDeadline, Timed

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
    "InputDeadline",
    "Param",
    "Run",
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
