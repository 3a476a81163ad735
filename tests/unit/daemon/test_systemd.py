"""The notifications of systemd fail silently."""

import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from tidegate.daemon.systemd import SOCKET, Systemd


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_daemon_without_a_listener_goes_on(tmp_path: Path) -> None:
    Systemd({SOCKET: str(tmp_path / "socket")}).say(READY=1)


def test_a_daemon_without_a_free_descriptor_goes_on(tmp_path: Path) -> None:
    systemd = Systemd({SOCKET: str(tmp_path / "socket")})

    with no_descriptor_left():
        systemd.say(WATCHDOG=1)


async def test_a_message_that_is_lost_is_repeated(tmp_path: Path) -> None:
    systemd = Systemd({SOCKET: str(tmp_path / "socket")})
    systemd.say(READY=1)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "socket"))
        async with anyio.create_task_group() as tg:
            tg.start_soon(systemd.watchdog)
            await anyio.wait_all_tasks_blocked()
            tg.cancel_scope.cancel()
        assert "READY=1" in listener.recv(100).decode().splitlines()
