"""The notifications of a systemd service of `Type=notify`, one datagram each; see sd_notify(3)."""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

import anyio

SOCKET = "NOTIFY_SOCKET"
WATCHDOG = "WATCHDOG_USEC"
START_EXTENSION_S = 60.0
REPEAT_S = 20.0
"""Interval of messages to a systemd that asks for no ping."""


class Systemd:
    """Does nothing when systemd did not start the process. Removes its variables from the environment of children."""

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        self._address = environ.pop(SOCKET, None)
        self._watchdog_s = int(environ.pop(WATCHDOG, "0")) / 1_000_000
        self._is_ready = False

    def say(self, **variables: str | int) -> None:
        """`say(READY=1, STATUS="…")`. Never raises: no listener and no free descriptor are no failures of the service."""
        self._is_ready |= "READY" in variables
        if self._address is None:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        message = "\n".join(f"{name}={value}" for name, value in variables.items())
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(0)
            sender.sendto(message.encode(), address)

    async def extend_start(self) -> None:
        """Extend the time limit of the start, for ever: waiting for a server is no failed start."""
        while True:
            self.say(EXTEND_TIMEOUT_USEC=round(START_EXTENSION_S * 1_000_000))
            await anyio.sleep(START_EXTENSION_S / 3)

    async def watchdog(self) -> None:
        """Ping from the event loop three times per period, so that a blocked loop is noticed. Returns without systemd.

        Each ping repeats that the service is ready: the first message is lost when systemd has no room for it.
        """
        while self._address is not None:
            self.say(WATCHDOG=1, **({"READY": 1} if self._is_ready else {}))
            await anyio.sleep(self._watchdog_s / 3 or REPEAT_S)
