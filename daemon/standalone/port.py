"""Free ports on loopback, and the process that listens on one."""

import socket
from contextlib import ExitStack

import psutil

LOOPBACK = "127.0.0.1"


def choose(count: int) -> tuple[int, ...]:
    """Distinct free ports. Another process may bind one before it is used."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind((LOOPBACK, 0))
        return tuple(probe.getsockname()[1] for probe in sockets)


def is_free(port: int) -> bool:
    """Whether a server can bind the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def listens(pid: int, port: int) -> bool:
    """Whether this process listens on the port; a successful connection may be to another one."""
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(it.status == psutil.CONN_LISTEN and it.laddr.port == port for it in connections)
