"""The ports that a standalone keeps."""

import re
import socket
from pathlib import Path

import pytest

from tidegate.daemon.standalone.kept_ports import KeptPorts
from tidegate.daemon.standalone.port import LOOPBACK, choose
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.process import ServerError


def postgres(home: Path, port: int = 0) -> Postgres:
    server = Postgres(home / "postgres")
    server.port = port
    return server


def proposed(home: Path) -> int:
    """The port that a new Postgres is given."""
    server = postgres(home)
    KeptPorts(home).propose(server)
    return server.port


def keep(home: Path, port: int) -> None:
    KeptPorts(home).keep(postgres(home, port))


def told(home: Path, port: int) -> list[str]:
    """What is said of a Postgres that starts with this port."""
    said: list[str] = []
    KeptPorts(home).tell(postgres(home), port, said.append)
    return said


def test_a_server_gets_the_port_that_it_had(tmp_path: Path) -> None:
    (port,) = choose(1)
    assert told(tmp_path, port) == []

    keep(tmp_path, port)

    assert proposed(tmp_path) == port
    assert told(tmp_path, port) == []


def test_a_port_that_was_taken_is_told_and_another_one_is_kept(tmp_path: Path) -> None:
    first, second = choose(2)
    keep(tmp_path, first)

    said = told(tmp_path, second)
    keep(tmp_path, second)

    assert said == [
        f"Postgres gets a new port for good, because another program has taken its port {first};"
        " settings that were exported before are no longer valid"
    ]
    assert proposed(tmp_path) == second


def test_a_port_that_the_user_set_goes_before_the_kept_one(tmp_path: Path) -> None:
    first, second = choose(2)
    keep(tmp_path, first)
    server, ports, said = postgres(tmp_path), KeptPorts(tmp_path), list[str]()

    with socket.create_server((LOOPBACK, second)):
        ports.forget(server, second, said.append)
    ports.forget(server, second, said.append)
    ports.propose(server)
    server.port = second
    ports.keep(server)

    assert proposed(tmp_path) == second
    assert said == [f"Postgres gets another port, because another program has taken the port {second} of the settings"]


@pytest.mark.parametrize("content", ["", "[]", '{"postgres": "x"}', '{"postgres": 70000}'])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "ports.json").write_text(content)

    with pytest.raises(ServerError, match=rf"^{re.escape(str(tmp_path))}/ports.json cannot be read: .*; repair or delete it"):
        KeptPorts(tmp_path)


def test_ports_are_below_those_of_outgoing_connections() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert all(port < lowest for port in choose(20))
