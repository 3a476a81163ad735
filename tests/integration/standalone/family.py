"""The processes of a server, and the addresses at which they listen."""

from collections.abc import Sequence

import psutil

from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.daemon.standalone.process import runs
from tidegate.daemon.standalone.server import Server

Address = tuple[str, int]


def family_of(server: Server) -> Sequence[psutil.Process]:
    return [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]


def listening_of(server: Server) -> set[Address]:
    """The addresses and ports of its first process."""
    connections = psutil.Process(server.pid).net_connections("inet")
    return {(each.laddr.ip, each.laddr.port) for each in connections if each.status == psutil.CONN_LISTEN}


def assert_kept_to_itself(server: Server, family: Sequence[psutil.Process], listening: set[Address]) -> None:
    """It was on loopback only, and has taken its processes along now that it has stopped."""
    assert server.port in {port for _, port in listening}
    assert {address.removeprefix("::ffff:") for address, _ in listening} == {LOOPBACK}
    assert not any(map(runs, family))
