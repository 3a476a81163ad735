"""Free ports on loopback, and the process that listens on one."""

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

LOOPBACK = "127.0.0.1"
LOWEST = 10_000
TRIES = 50
CONNECT_S = 1.0

_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def choose(count: int) -> tuple[int, ...]:
    """Distinct free ports. Another process may bind one before it is used.

    They are below the ports of outgoing connections: clients that look for a server that died would get its port.
    """
    with ExitStack() as held:
        return tuple(_bind(held.enter_context(socket.socket())) for _ in range(count))


def _bind(probe: socket.socket) -> int:
    for port in random.choices(_below_outgoing(), k=TRIES):  # noqa: S311, not a secret
        with suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    probe.bind((LOOPBACK, 0))
    return int(probe.getsockname()[1])


def _below_outgoing() -> range:
    lowest_outgoing = int(_OUTGOING.read_text().split()[0])
    return range(LOWEST, max(lowest_outgoing, LOWEST + 1))


def is_free(port: int) -> bool:
    """Whether a server can bind the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def listener(port: int) -> str:
    """The listener on the port: `process 4711 (nginx)`, or that it is a program of another user, whose processes are hidden."""
    try:
        listening = (it for it in psutil.net_connections("tcp") if it.status == psutil.CONN_LISTEN)
        found = next((it.pid for it in listening if it.laddr and it.laddr.port == port and it.pid), None)
        return "a program of another user" if found is None else f"process {found} ({psutil.Process(found).name()})"
    except psutil.Error:
        return "another program"


def listens(pid: int, port: int) -> bool:
    """Whether this process listens on the port; a successful connection may be to another one.

    True for a process that refuses inspection, whose sockets root alone sees: it has to end when it cannot bind its port.
    Connects first: to list the connections of a host takes milliseconds.
    """
    if not _accepts(port):
        return False
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error as error:
        return isinstance(error, psutil.AccessDenied)
    return any(it.status == psutil.CONN_LISTEN and it.laddr.port == port for it in connections)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(CONNECT_S)
        return probe.connect_ex((LOOPBACK, port)) == 0
