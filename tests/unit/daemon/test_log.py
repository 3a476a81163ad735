"""The log of a daemon."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog
from rich.console import Console

from tidegate.daemon import terminal
from tidegate.daemon.log import configure
from tidegate.daemon.terminal import lossy


@pytest.fixture(autouse=True)
def configuration() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_log_that_cannot_be_written_ends_nothing(form: str, monkeypatch: pytest.MonkeyPatch, *, is_closed: bool) -> None:
    goes_on = False
    with suppress(OSError), Path("/dev/full").open("w", buffering=1) as stream:  # closing it fails, too
        if is_closed:
            stream.close()
        monkeypatch.setattr(sys, "stderr", stream)
        configure(form)
        structlog.get_logger().warning("server_lost", error="x" * 10_000)
        goes_on = True

    assert goes_on


def test_what_can_be_written_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "log").open("w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        configure("json")
        structlog.get_logger().warning("server_lost")
        written = (tmp_path / "log").read_text()

    assert '"event": "server_lost"' in written


def test_a_console_that_cannot_write_goes_on() -> None:
    """As that of a standalone on a full disk, which would end with all servers."""
    is_written = False
    with suppress(OSError), Path("/dev/full").open("w", buffering=1) as stream:
        console = Console(file=lossy(stream))
        console.print("Postgres is ready again")
        is_written = not console._buffer

    assert is_written


def test_a_reader_that_reads_no_more_holds_up_nothing_and_gets_what_comes_once_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal, "PATIENCE_S", 0.05)
    reader, writer = os.pipe()
    out = lossy(os.fdopen(writer, "w"))

    def tell() -> None:
        for _ in range(200):
            out.write(f"{'x' * 999}\n")

    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    telling.join(60)
    is_held_up, before = telling.is_alive(), os.read(reader, 1 << 20)
    out.write("it goes on\n")
    after = os.read(reader, 1 << 20)
    os.close(reader)
    out.close()

    assert (is_held_up, after) == (False, b"it goes on\n")
    assert 10_000 < len(before) < 200_000
