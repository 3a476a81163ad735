"""What systemd wants to hear from a service of `Type=notify`: sd_notify(3), one datagram each."""

import os
import socket
from collections.abc import MutableMapping

import anyio

SOCKET = "NOTIFY_SOCKET"
WATCHDOG = "WATCHDOG_USEC"


class Systemd:
    """Silent when systemd did not start us. The variables are taken out of the environment: they are not for children."""

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        self._address = environ.pop(SOCKET, None)
        self._watchdog_s = int(environ.pop(WATCHDOG, "0")) / 1_000_000

    def say(self, **variables: str | int) -> None:
        """`say(READY=1, STATUS="…")`. Never raises: a service does not fail because nobody listens."""
        if self._address is None:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        message = "\n".join(f"{name}={value}" for name, value in variables.items())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(0)
            try:
                sender.sendto(message.encode(), address)
            except OSError:
                return

    async def watchdog(self) -> None:
        """Ping three times per period, from the event loop: a loop that hangs does not ping. Returns when none is wanted."""
        while self._watchdog_s:
            self.say(WATCHDOG=1)
            await anyio.sleep(self._watchdog_s / 3)
