"""The content of a notification."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidegate.schemas.receiver import On


class MissedDeadline(msgspec.Struct, frozen=True, kw_only=True):
    """A run, or with a `task_id` one of its tasks, had not ended by then."""

    name: str
    due_at: Annotated[datetime, Meta(tz=True)]
    task_id: str | UnsetType = UNSET


class CallbackContext(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of a callback. Times are in UTC.

    `state` is the new state of the task or, without a task, of the run; after a missed deadline the current state of the run.
    Late inputs of a DAG have no run. `id` is the same at every delivery of a notification to a receiver.
    """

    on: On
    dag_id: str
    run_id: str | None
    run_type: str | None
    run_after: datetime | None
    logical_date: datetime | None
    state: str | None
    at: datetime
    reason: str = ""
    task_id: str | None = None
    try_number: int | None = None
    deadline: MissedDeadline | None = None
    id: UUID | None = None


def headline(context: CallbackContext) -> str:
    """One line for people: `daily: run r1, task load: try 2 failed, another one follows`."""
    if context.run_id is None:
        return f"{context.dag_id}: inputs were not there by the deadline"
    return f"{context.dag_id}: run {context.run_id}{f', task {context.task_id}' if context.task_id else ''}: {_said(context)}"


def _said(context: CallbackContext) -> str:
    match context.on:
        case On.SUCCESS:
            return "succeeded"
        case On.FAILURE:
            return "failed"
        case On.RETRY:
            return f"try {context.try_number} failed, another one follows"
        case On.TIMEOUT:
            return "took too long"
        case On.DEADLINE:
            return f"missed the deadline {context.deadline.name!r}" if context.deadline else "missed a deadline"
