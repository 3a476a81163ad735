"""What every server of standalone promises, whichever it is."""

import os
import re
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import psutil
import pytest

from tests.integration.standalone.family import assert_kept_to_itself, family_of, listening_of
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.port import LOOPBACK, choose
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.process import Child, ServerError
from tidegate.daemon.standalone.server import Server


@pytest.fixture
def server(tmp_path: Path) -> Server:
    """For what is the same for all: the one that starts fastest."""
    return Postgres(tmp_path / "home")


@pytest.fixture(params=["postgres", "kafka"])
def any_server(request: pytest.FixtureRequest, tmp_path: Path, cache: Path) -> Server:
    """Spark Connect, which takes longest, is in its own file."""
    kinds: dict[str, Callable[[], Server]] = {
        "postgres": lambda: Postgres(tmp_path / "home"),
        "kafka": lambda: Kafka(tmp_path / "home", cache),
    }
    return kinds[request.param]()


async def test_it_listens_on_loopback_only_and_takes_its_family_along_when_it_stops(any_server: Server) -> None:
    async with any_server as server:
        family, listening = family_of(server), listening_of(server)

    assert_kept_to_itself(server, family, listening)


async def test_it_can_be_started_again_after_it_was_killed(server: Server) -> None:
    async with server:
        killed = server.pid
        psutil.Process(killed).kill()
        how = await server.ended()

        await server.start()

        assert how == "was ended by SIGKILL"
        assert server.pid != killed


async def test_it_says_so_when_another_program_has_its_port(server: Server) -> None:
    async with server:
        await server.stop()

        says = rf"cannot have port {server.port} .*: process {os.getpid()} \(.*\) listens there; end it, or stop"
        with closing(socket.create_server((LOOPBACK, server.port))), pytest.raises(ServerError, match=says):
            await server.start()


async def test_it_takes_another_port_when_the_one_it_had_before_is_taken(server: Server) -> None:
    with closing(socket.create_server((LOOPBACK, 0))) as taken:
        server.port = taken.getsockname()[1]

        async with server:
            assert server.port != taken.getsockname()[1]


async def test_it_takes_another_port_when_its_port_was_taken(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server((LOOPBACK, 0))) as taken:
        turns = iter([(taken.getsockname()[1],), choose(1)])
        monkeypatch.setattr(server, "_choose_ports", lambda: next(turns))

        async with server:
            assert server.port != taken.getsockname()[1]


async def test_a_directory_serves_one_server_at_a_time(server: Server) -> None:
    async with server:
        with pytest.raises(
            ServerError,
            match=rf"^{server.home} is in use \(process {os.getpid()}\): stop that process, or choose another directory$",
        ):
            await Postgres(server.home).start()


async def test_a_directory_is_free_again_after_a_start_that_failed(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ServerError):
        await Kafka(tmp_path / "home", cache).start()

    async with Postgres(tmp_path / "home") as server:
        assert server.process.alive


async def test_it_is_not_left_running_when_its_start_is_cancelled(server: Server) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(server.start)
        while server._child is None:
            await anyio.sleep(0.001)
        group.cancel_scope.cancel()

    assert not server.process.alive


async def test_a_server_that_is_slow_to_answer_is_waited_for_while_it_lives(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that as long as usual has passed, a line says what it waits for."""
    told: list[str] = []

    async def silence(child: Child, port: int) -> bool:
        if len(told) == 2:
            psutil.Process(child.pid).kill()
        return False

    monkeypatch.setattr(server, "_answers", silence)
    monkeypatch.setattr(type(server), "usual_s", 0.3)
    server.on_slow = told.append

    with pytest.raises(ServerError, match=r"^Postgres was ended by SIGKILL while starting"):
        await server.start()

    waits = r"Postgres \(process \d+\) has not answered for \d s, and still runs: waiting for it; Ctrl-C gives up\."
    assert re.fullmatch(rf"{waits} Its log is {server.log}", told[0])
    assert not server.process.alive
