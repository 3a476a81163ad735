"""What every kind of receiver has in common: how one try of telling it ends."""

import re
from typing import NamedTuple, Protocol

from tidegate.schemas.queries.notifications import Claimed
from tidegate.schemas.receiver import EmailReceiver, FunctionReceiver, Receiver, WebhookReceiver

_HOST_ENDS = re.compile("[/?#]")


class Sent(NamedTuple):
    """It was acknowledged; `note` is what people should know all the same."""

    note: str = ""


class Failed(NamedTuple):
    """It was not acknowledged, as far as we know. `final`: another try would not be either."""

    reason: str
    final: bool = False


class UnderWay(NamedTuple):
    """It is not known yet; to be looked at again."""

    look_in_s: float


Delivery = Sent | Failed | UnderWay


class Sender(Protocol):
    """One way of telling."""

    async def send(self, claimed: Claimed) -> Delivery:
        """Try once, in bounded time. Raises UnavailableError when Postgres is away: nothing is known then."""


def label(receiver: Receiver) -> str:
    """A receiver for people, without what may be secret: `mail to a@example.org`, `https://example.org`, `tell()`."""
    match receiver:
        case EmailReceiver(to):
            return f"mail to {', '.join(to)}"
        case WebhookReceiver(url):
            scheme, _, rest = url.partition("://")
            return f"{scheme}://{_HOST_ENDS.split(rest, maxsplit=1)[0].rpartition('@')[2]}"
        case FunctionReceiver(name):
            return f"{name}()"
