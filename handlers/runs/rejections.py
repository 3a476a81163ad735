"""Rejections that several requests share."""

from tidegate.schemas.effect import RejectMessage

NO_SUCH_DAG = "no_such_dag"
NO_SUCH_RUN = "no_such_run"
NO_SUCH_TASK = "no_such_task"
ALREADY_ENDED = "already_ended"
PARAMS_CHANGED = "params_changed"


def no_such_dag(dag_id: str) -> RejectMessage:
    return RejectMessage(NO_SUCH_DAG, f"there is no DAG {dag_id!r}; `tidegate dags list` shows all")


def no_such_run(dag_id: str, run_id: str) -> RejectMessage:
    said = f"DAG {dag_id!r} has no run {run_id!r}; `tidegate runs list {dag_id}` shows all"
    return RejectMessage(NO_SUCH_RUN, said)
