"""The result of one attempt to send a notification."""

import re
from typing import NamedTuple, Protocol

from tidegate.schemas.queries.notifications import Claimed
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

    async def send(self, claimed: Claimed) -> Delivery:
        """Attempt once, in bounded time. Raises UnavailableError when Postgres is away: then the result is unknown."""


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
