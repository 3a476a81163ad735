"""The completion of ids does not keep a shell waiting."""

import socket
import threading
from typing import Any

import pytest
import typer
from typer.main import get_command

from tidegate.daemon.cli.completion import dag_ids

PATIENCE_S = 60


def test_a_name_that_is_looked_up_for_long_has_no_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    answered, waited_for = threading.Event(), threading.Event()

    def slow(*_: Any, **__: Any) -> list[Any]:
        if not answered.wait(PATIENCE_S):
            waited_for.set()
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", "postgresql://anna@database.invalid/tidegate")

    found = dag_ids(typer.Context(get_command(typer.Typer(callback=lambda: None))), "d")

    assert (found, waited_for.is_set()) == ([], False)
    answered.set()
