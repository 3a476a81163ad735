"""Ports on loopback: choose free ones, see who has one."""

import socket
from contextlib import ExitStack

import psutil

LOOPBACK = "127.0.0.1"


def choose(count: int) -> tuple[int, ...]:
    """Distinct ports that were free a moment ago; somebody may take one before it is used."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return tuple(each.getsockname()[1] for each in sockets)


def is_free(port: int) -> bool:
    """True if a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def listens(pid: int, port: int) -> bool:
    """True if this very process listens there: an answer alone could be somebody else's."""
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in connections)
