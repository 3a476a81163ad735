"""Messages: everything that changes state, from Kafka or from inside, in one form."""

from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec

from tidegate.schemas.event import EventId

Body = TypeVar("Body")


class Message(msgspec.Struct, Generic[Body], frozen=True, kw_only=True):
    """One thing that happened.

    `id` makes redelivery harmless; internal messages, which are idempotent by what they find, have none. `at` is when it
    happened, by its producer's word or the broker's.
    """

    body: Body
    at: datetime
    id: EventId | None = None


class RunRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user wants a run. `run_id` None: one is made from the time."""

    dag_id: str
    run_id: str | None
    conf: dict[str, Any]


class PauseRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user pauses or unpauses a DAG."""

    dag_id: str
    is_paused: bool


class TasksReady(msgspec.Struct, frozen=True, kw_only=True):
    """Task instances may be waiting for a slot of a pool: admit up to `limit` of them."""

    pool: str
    limit: int


class SubmissionAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """A backend took an attempt: its task runs."""

    submission_id: UUID
    handle: dict[str, Any]


class LeaseLapsed(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt gave no sign of life for `silent_s`; whoever ran it is taken for dead."""

    submission_id: UUID
    silent_s: float
