"""Effects on deadlines of runs and tasks, and on notifications."""

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from tidegate.schemas.notice import CallbackContext
from tidegate.schemas.receiver import Receiver


class InsertDeadline(msgspec.Struct, frozen=True):
    """The deadline of a new run or of one of its tasks."""

    dag_run_id: int
    task_id: str | None
    name: str
    due_at: datetime


class MeetDeadlines(msgspec.Struct, frozen=True):
    """A task ended, or, with `task_id` None, the whole run. Its open deadlines that are not yet due are met."""

    dag_run_id: int
    task_id: str | None
    at: datetime


class MissDeadline(msgspec.Struct, frozen=True):
    """A deadline has passed; `missed_seq` is the number of the run-state event that publishes the miss."""

    id: int
    missed_seq: int
    missed_at: datetime


class Notify(msgspec.Struct, frozen=True, kw_only=True):
    """A notification to one receiver, sent after the commit.

    `about` and `seq` name the event of a `run` or `task`; with `receiver_id` they are unique, so no receiver gets one twice.
    A notification about a `dag` has a version in place of a run.
    """

    dag_run_id: int | None
    version_id: int | None
    about: Literal["run", "task", "dag"]
    seq: int
    kind: str
    receiver_id: UUID
    receiver: Receiver
    context: CallbackContext


DeadlineEffect = InsertDeadline | MeetDeadlines | MissDeadline | Notify
