"""Tidegate: event-driven scheduling of Spark pipelines.

What a DAG file needs: `Dag` and `Dataset` to write it (see `tidegate.schemas.authoring`), `Run` and `ConsumedEvent` for what
its functions get, `Task` and `DagError` for annotations and tests.
"""

from tidegate.schemas.authoring import Dag
from tidegate.schemas.dataset import Dataset
from tidegate.schemas.error import DagError
from tidegate.schemas.run import ConsumedEvent
from tidegate.schemas.run import RunContext as Run
from tidegate.schemas.task import Task

__all__ = ["ConsumedEvent", "Dag", "DagError", "Dataset", "Run", "Task"]
