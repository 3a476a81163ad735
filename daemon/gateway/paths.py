"""The parameters of paths that the API and the pages share."""

from tidegate.daemon.gateway.endpoint import Params
from tidegate.daemon.gateway.lists import Id


class DagPath(Params, frozen=True):
    """A DAG by its id."""

    dag_id: str


class RunPath(DagPath, frozen=True):
    """A run by its id, or the newest one of its DAG as `latest`."""

    run_id: str


class TaskPath(RunPath, frozen=True):
    """A task of a run, or an instance such as `load[3]` of a mapped one."""

    task_id: str


class BackfillPath(Params, frozen=True):
    """A backfill by its number."""

    backfill_id: Id
