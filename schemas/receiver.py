"""Callbacks and their receivers, serialised."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta


class On(StrEnum):
    """The event that a callback is called on. Runs have no `retry`."""

    SUCCESS = "success"
    FAILURE = "failure"
    RETRY = "retry"
    TIMEOUT = "timeout"
    DEADLINE = "deadline"


_PART = r"[!#-+\--:=?A-~]+"
"""Printable ASCII without space, quotation mark, comma, semicolon, angle brackets and at sign."""

Address = Annotated[str, Meta(max_length=320, pattern=rf"^{_PART}@{_PART}\Z")]


class EmailReceiver(msgspec.Struct, frozen=True, tag="email", tag_field="kind", forbid_unknown_fields=True, omit_defaults=True):
    """One mail to all addresses. The default `subject` is `tidegate.schemas.notice.headline`."""

    to: Annotated[tuple[Address, ...], Meta(min_length=1, max_length=100)]
    subject: Annotated[str, Meta(max_length=250)] = ""


class WebhookReceiver(
    msgspec.Struct, frozen=True, tag="webhook", tag_field="kind", forbid_unknown_fields=True, omit_defaults=True
):
    """An HTTP POST to this URL: of the context, or of the JSON `body`.

    Texts of the body may have `tidegate.schemas.notice.PLACEHOLDERS`.
    """

    url: Annotated[str, Meta(max_length=2048, pattern=r"^https?://[\x21-\x7e]+\Z")]
    body: Annotated[str, Meta(max_length=20_000)] = ""


class FunctionReceiver(msgspec.Struct, frozen=True, tag="function", tag_field="kind", forbid_unknown_fields=True):
    """A function of the DAG file, called with a `tidegate.schemas.notice.CallbackContext` in a process of its own."""

    name: Annotated[str, Meta(min_length=1, max_length=250)]


Receiver = EmailReceiver | WebhookReceiver | FunctionReceiver


class Callback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A receiver and the event it is called on."""

    on: On
    receiver: Receiver


def kind_of(receiver: Receiver) -> str:
    """`email`, `webhook` or `function`."""
    return str(receiver.__struct_config__.tag)
