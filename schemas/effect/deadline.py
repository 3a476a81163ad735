"""Deadlines of runs and tasks, and who is told of what happened."""

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from tidegate.schemas.notice import CallbackContext
from tidegate.schemas.receiver import Receiver


class InsertDeadline(msgspec.Struct, frozen=True):
    """A new run, or a task of it, is to have ended by then."""

    dag_run_id: int
    task_id: str | None
    name: str
    due_at: datetime


class MeetDeadlines(msgspec.Struct, frozen=True):
    """A task of a run ended, or with no `task_id` all of the run: what was due later is met."""

    dag_run_id: int
    task_id: str | None
    at: datetime


class MissDeadline(msgspec.Struct, frozen=True):
    """A deadline has passed; `missed_seq` is the number of the event that says so."""

    id: int
    missed_seq: int
    missed_at: datetime


class Notify(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody is to be told what happened, once this is committed.

    What happened is known by the `seq` of its event `about` a `run` or a `task`, and nobody is told of that twice: `receiver_id`
    stands for the receiver. What is `about` a `dag` has a version of that in place of a run.
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
