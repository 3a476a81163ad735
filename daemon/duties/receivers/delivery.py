"""The result of one attempt to send a notification."""

import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from tidegate.schemas.queries.notifications import ClaimedNotification
from tidegate.schemas.receiver import EmailReceiver, FunctionReceiver, Receiver, WebhookReceiver

_HOST_ENDS = re.compile("[/?#]")


class Sent(NamedTuple):
    """Acknowledged; `note` is for people, such as a refused recipient."""

    note: str = ""


class Failed(NamedTuple):
    """Not acknowledged, as far as is known. `final`: another attempt would fail for the same reason."""

    reason: str
    final: bool = False


class UnderWay(NamedTuple):
    """Still running; send again in `poll_in_s` to get the result."""

    poll_in_s: float


Delivery = Sent | Failed | UnderWay


class Sender(Protocol):
    """Sends one kind of notification."""

    async def send(self, claimed: ClaimedNotification) -> Delivery:
        """Attempt once, in bounded time. Raises UnavailableError when a server is away: the result is unknown then."""


UNKNOWN_AUTHORITY = frozenset((18, 19, 20, 21))
"""OpenSSL: no trusted authority has signed the certificate, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT and the next."""


def why(error: BaseException) -> str:
    """The causes of a failed connection as the system names them; libraries replace them by general errors.

    A host with several addresses has several causes.
    """
    known = dict.fromkeys(reason for first in _first_causes(error) if (reason := _reason(first)))
    return "; ".join(known) or str(error) or type(error).__name__


def _reason(first: BaseException) -> str | None:
    match first:
        case ssl.SSLCertVerificationError():
            trust = "; to trust it, set SSL_CERT_FILE of the daemon to a file with its authority"
            is_unknown = first.verify_code in UNKNOWN_AUTHORITY
            return f"its certificate is refused ({first.verify_message.rstrip('.')}){trust if is_unknown else ''}"
        case ssl.SSLError():
            return str(first)
        case socket.gaierror(strerror=str(text)):
            return text
        case OSError(errno=int(number)):
            return os.strerror(number)
        case _:
            return None


def _first_causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _first_causes(one)
    elif inner := error.__cause__ or error.__context__:
        yield from _first_causes(inner)
    else:
        yield error


def label(receiver: Receiver) -> str:
    """The receiver in logs, without secrets: `mail to a@example.org`, `https://example.org`, `tell()`."""
    match receiver:
        case EmailReceiver(to):
            return f"mail to {', '.join(to)}"
        case WebhookReceiver(url):
            scheme, _, location = url.partition("://")
            return f"{scheme}://{_HOST_ENDS.split(location, maxsplit=1)[0].rpartition('@')[2]}"
        case FunctionReceiver(name):
            return f"{name}()"


def stored_receiver(receiver: Mapping[str, Any]) -> Receiver | None:
    """The receiver of a stored notification; None for one that another version wrote."""
    try:
        known: Receiver = msgspec.convert(receiver, Receiver)
    except msgspec.ValidationError:
        return None
    return known


def stored_label(receiver: Mapping[str, Any]) -> str:
    """As `label`, of a stored receiver."""
    known = stored_receiver(receiver)
    return "a receiver that this version cannot read" if known is None else label(known)
