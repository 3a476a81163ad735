"""Callbacks and deadlines of a DAG, serialised."""

from datetime import time
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

LONGEST_S = 10 * 366 * 86_400.0


class On(StrEnum):
    """The event that a callback is called on. Runs have no `retry`."""

    SUCCESS = "success"
    FAILURE = "failure"
    RETRY = "retry"
    TIMEOUT = "timeout"
    DEADLINE = "deadline"


Address = Annotated[
    str, Meta(max_length=320, pattern=r"^[^@\x00-\x20\x7f-\U0010ffff,;<>\"]+@[^@\x00-\x20\x7f-\U0010ffff,;<>\"]+\Z")
]


class EmailReceiver(msgspec.Struct, frozen=True, tag="email", tag_field="kind", forbid_unknown_fields=True, omit_defaults=True):
    """One mail to all addresses. The default `subject` is `tidegate.schemas.notice.headline`."""

    to: Annotated[tuple[Address, ...], Meta(min_length=1, max_length=100)]
    subject: Annotated[str, Meta(max_length=250)] = ""


class WebhookReceiver(msgspec.Struct, frozen=True, tag="webhook", tag_field="kind", forbid_unknown_fields=True):
    """An HTTP POST to this URL."""

    url: Annotated[str, Meta(max_length=2048, pattern=r"^https?://[\x21-\x7e]+\Z")]


class FunctionReceiver(msgspec.Struct, frozen=True, tag="function", tag_field="kind", forbid_unknown_fields=True):
    """A function of the DAG file, called with a `tidegate.schemas.notice.CallbackContext` in a process of its own."""

    name: Annotated[str, Meta(min_length=1, max_length=250)]


Receiver = EmailReceiver | WebhookReceiver | FunctionReceiver


class Callback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A receiver and the event it is called on."""

    on: On
    receiver: Receiver


class DeadlineSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The time by which a run or task must have ended: `after_s` after `since`, or `at`, a time of day in `timezone`.

    `at` is on the day of the run's logical date, or on the next day if that time had passed. A run without a logical date counts
    from its `run_after`.
    """

    name: Annotated[str, Meta(min_length=1, max_length=250)]
    after_s: Annotated[float, Meta(gt=0, le=LONGEST_S)] | None = None
    since: Literal["logical_date", "queued_at"] = "logical_date"
    at: Annotated[time, Meta(tz=False)] | None = None
    timezone: str = "UTC"


def kind_of(receiver: Receiver) -> str:
    """`email`, `webhook` or `function`."""
    return str(receiver.__struct_config__.tag)
