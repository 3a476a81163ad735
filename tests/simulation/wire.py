"""The way to a Postgres, on which an answer is waited for without the loop: between two decisions nothing else can run."""

import asyncio
import select
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.loop import VirtualLoop

SILENCE_S = 0.0005
"""Of real time: after that it is asked why a server has not answered yet. A limit of the socket itself would end at a tick of the
kernel, which takes ten times as long."""

MOST = 1 << 18


class Wire(asyncio.Transport):
    """A blocking socket. The loop hears what comes until `leave_loop`; after that only `hear` does."""

    def __init__(self, loop: "VirtualLoop", connected: socket.socket, protocol: asyncio.Protocol) -> None:
        super().__init__({"socket": connected})
        self._loop = loop
        self._socket = connected
        self._protocol = protocol
        loop.add_reader(connected, self.hear)
        protocol.connection_made(self)

    def leave_loop(self) -> None:
        self._loop.remove_reader(self._socket)

    def is_silent(self) -> bool:
        """Whether the server says nothing for a moment."""
        return not select.select((self._socket,), (), (), SILENCE_S)[0]

    def hear(self) -> None:
        """Take in what the server says."""
        if said := self._socket.recv(MOST):
            self._protocol.data_received(said)
        else:
            self.abort()

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
