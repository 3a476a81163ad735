"""Why a run and its tasks move."""

from typing import NamedTuple

from tidegate.schemas.notice import FailedTask


class Reason(NamedTuple):
    """Why a run and its tasks move. `timed_out`: the run took longer than its DAG allows.

    Without `outlets`: a task that a user marks as succeeded has made no new data. `failed`: the first tasks that failed.
    """

    text: str = ""
    timed_out: bool = False
    outlets: bool = True
    failed: tuple[FailedTask, ...] = ()


NO_REASON = Reason()
