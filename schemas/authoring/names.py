"""What `tidegate` has for DAG files."""

from tidegate.schemas.authoring.callbacks import Deadline, Email, Webhook
from tidegate.schemas.authoring.dag import Dag
from tidegate.schemas.authoring.dataset import Dataset, DatasetPattern, n_of
from tidegate.schemas.authoring.params import Param
from tidegate.schemas.authoring.schedule import DatasetOrTime, DatasetsAndTime, InputDeadline, Timed, cron, every
from tidegate.schemas.authoring.task import Task
from tidegate.schemas.authoring.trial import Event
from tidegate.schemas.dag import Secret, TriggerRule, WeightRule
from tidegate.schemas.error import DagError
from tidegate.schemas.notice import CallbackContext
from tidegate.schemas.run import Choice, ConsumedEvent, OutletEvent, Run, SkipTask, follow, skip_rest

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
