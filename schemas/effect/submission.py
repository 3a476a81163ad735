"""Submissions: the attempts of tasks."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tidegate.schemas.state import SubmissionState


class InsertSubmission(msgspec.Struct, frozen=True):
    """The intent to run one attempt on a backend."""

    submission_id: UUID
    dag_run_id: int
    task_index: int
    try_number: int
    backend: str


class KillSubmissions(msgspec.Struct, frozen=True):
    """Request that the open attempts of a run are killed: of one task, or of all."""

    dag_run_id: int
    task_index: int | None
    reason: str


class AcceptSubmission(msgspec.Struct, frozen=True):
    """A backend took an attempt; `handle` finds it again. It may take until `times_out_at`."""

    submission_id: UUID
    handle: dict[str, Any]
    at: datetime
    times_out_at: datetime | None


class EndSubmission(msgspec.Struct, frozen=True):
    """An attempt ended on its backend."""

    submission_id: UUID
    state: SubmissionState
    reason: str
    exit_code: int | None
    started_at: datetime | None
    ended_at: datetime


class IgnoreFinish(msgspec.Struct, frozen=True):
    """A finish that changes nothing is recorded with the reason."""

    submission_id: UUID
    source: str
    event_id: str
    outcome: str
    reason: str


SubmissionEffect = InsertSubmission | KillSubmissions | AcceptSubmission | EndSubmission | IgnoreFinish
