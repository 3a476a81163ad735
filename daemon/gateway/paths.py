"""The parameters of paths that the API and the pages share."""

from typing import Annotated

from msgspec import Meta

from tidegate.daemon.gateway.endpoint import Params
from tidegate.daemon.gateway.lists import DagId, Id, RunId


class DagPath(Params, frozen=True):
    """A DAG by its id."""

    dag_id: DagId


class RunPath(DagPath, frozen=True):
    """A run by its id, or the newest one of its DAG as `latest`."""

    run_id: RunId


class TaskPath(RunPath, frozen=True):
    """A task of a run, or an instance such as `load[3]` of a mapped one."""

    task_id: Annotated[str, Meta(description="The id of the task, or that of an instance such as `load[3]` of a mapped one.")]


class BackfillPath(Params, frozen=True):
    """A backfill by its number."""

    backfill_id: Annotated[Id, Meta(description="The number of the backfill.")]
