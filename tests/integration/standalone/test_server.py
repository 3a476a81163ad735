"""What every server of standalone promises, whichever it is."""

import os
import socket
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import psutil
import pytest

from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.port import LOOPBACK, choose
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.process import Child, ServerError, runs
from tidegate.daemon.standalone.server import Server
from tidegate.daemon.standalone.spark_connect import SparkConnect

PARENT = """
import sys, anyio
from pathlib import Path
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.spark_connect import SparkConnect

async def main():
    async with {server}:
        print("started", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture
def server(tmp_path: Path) -> Server:
    """For what is the same for all: the one that starts fastest."""
    return Postgres(tmp_path / "home")


@pytest.fixture(params=["postgres", "kafka", "spark_connect"])
def any_server(request: pytest.FixtureRequest, tmp_path: Path, cache: Path) -> Server:
    kinds: dict[str, Callable[[], Server]] = {
        "postgres": lambda: Postgres(tmp_path / "home"),
        "kafka": lambda: Kafka(tmp_path / "home", cache),
        "spark_connect": lambda: SparkConnect(tmp_path / "home"),
    }
    return kinds[request.param]()


def constructor(server: Server, cache: Path) -> str:
    more = f", Path({str(cache)!r})" if isinstance(server, Kafka) else ""
    return f"{type(server).__name__}(Path({str(server.home)!r}){more})"


async def all_end(processes: list[psutil.Process], within_s: float) -> None:
    with anyio.fail_after(within_s):
        while any(map(runs, processes)):
            await anyio.sleep(0.02)


async def test_it_dies_with_a_parent_that_was_killed(any_server: Server, cache: Path) -> None:
    script = PARENT.format(server=constructor(any_server, cache))
    async with await anyio.open_process([sys.executable, "-c", script], stderr=None) as parent:
        assert parent.stdout is not None
        await parent.stdout.receive()
        family = psutil.Process(parent.pid).children(recursive=True)

        parent.kill()
        await parent.wait()

        assert family
        await all_end(family, within_s=10)


async def test_it_listens_on_loopback_only_and_takes_its_family_along_when_it_stops(any_server: Server) -> None:
    async with any_server as server:
        family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        listening = [c for c in psutil.Process(server.pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]

    assert server.port in {each.laddr.port for each in listening}
    assert {each.laddr.ip.removeprefix("::ffff:") for each in listening} == {LOOPBACK}
    assert not any(map(runs, family))


async def test_its_death_is_told_with_the_signal_that_ended_it(server: Server) -> None:
    async with server:
        psutil.Process(server.pid).kill()

        with pytest.raises(ServerError, match=f"^Postgres was ended by SIGKILL; the end of {server.log}:"):
            await server.watch()


async def test_it_can_be_started_again_after_it_was_killed(server: Server) -> None:
    async with server:
        killed = server.pid
        psutil.Process(killed).kill()
        await server.process.process.wait()

        await server.start()

        assert server.pid != killed


async def test_it_says_so_when_another_program_has_its_port(server: Server) -> None:
    async with server:
        await server.stop()

        with closing(socket.create_server((LOOPBACK, server.port))), pytest.raises(ServerError, match="another program listens"):
            await server.start()


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


async def test_a_server_that_never_answers_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silence(child: Child, port: int) -> bool:
        return False

    monkeypatch.setattr(server, "_answers", silence)
    monkeypatch.setattr(type(server), "start_s", 0.5)

    with pytest.raises(ServerError, match=f"^Postgres did not answer within 0.5 s; the end of {server.log}:"):
        await server.start()

    assert not server.process.alive
