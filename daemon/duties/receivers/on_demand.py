"""Senders that are opened for their first notification.

The clients of mail and HTTP take a seventh of the CPU time of a daemon's imports, and many daemons send nothing.
"""

from collections.abc import Callable

import anyio
from anyio import to_thread

from tidegate.daemon.duties.receivers.delivery import Delivery, Sender
from tidegate.schemas.queries.notifications import ClaimedNotification


class OnDemand:
    """`open_` may import: it is called once, in a thread."""

    def __init__(self, open_: Callable[[], Sender]) -> None:
        self._open = open_
        self._opening = anyio.Lock()
        self._sender: Sender | None = None

    async def send(self, claimed: ClaimedNotification) -> Delivery:
        async with self._opening:
            if self._sender is None:
                self._sender = await to_thread.run_sync(self._open)
        return await self._sender.send(claimed)
