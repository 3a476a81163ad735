"""The way to a Postgres, on which an answer is waited for without the loop: between two decisions nothing else can run."""

import asyncio
import socket
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.loop import VirtualLoop

SILENCE_US = 2000
"""Of real time: after that it is asked why a server has not answered yet."""

MOST = 1 << 18


class Wire(asyncio.Transport):
    """A blocking socket. The loop hears what comes until `leave_loop`; after that only `hear` does."""

    def __init__(self, loop: "VirtualLoop", connected: socket.socket, protocol: asyncio.Protocol) -> None:
        super().__init__({"socket": connected})
        self._loop = loop
        self._socket = connected
        self._protocol = protocol
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, SILENCE_US))
        loop.add_reader(connected, self.hear)
        protocol.connection_made(self)

    def leave_loop(self) -> None:
        self._loop.remove_reader(self._socket)

    def hear(self) -> bool:
        """Take in what the server says; False if it says nothing for a moment."""
        try:
            said = self._socket.recv(MOST)
        except BlockingIOError:
            return False
        if said:
            self._protocol.data_received(said)
        else:
            self.abort()
        return True

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        self._socket.sendall(data)

    def writelines(self, list_of_data: "Iterable[bytes | bytearray | memoryview[Any]]") -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._socket.fileno() < 0

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self.is_closing():
            self.leave_loop()
            self._socket.close()
            self._protocol.connection_lost(None)
