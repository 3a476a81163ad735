"""A standalone goes on when its example fails, and when its record could not be written."""

from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from rich.console import Console

from tests.waiting import until
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.daemon.standalone import command, record
from tidegate.daemon.standalone.command import Options
from tidegate.daemon.standalone.process import ServerError
from tidegate.daemon.standalone.record import Recorder
from tidegate.daemon.standalone.stack import Stack


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose producer fails, as on a full disk."""

    async def fail(*_: Any) -> int:
        raise ServerError("the producer of the example failed: no space")

    async def return_at_once(*_: Any) -> None:
        return

    monkeypatch.setattr(command, "_week", fail)
    monkeypatch.setattr(command, "_print_ends", return_at_once)


async def serve(console: Console, *, once: bool) -> int:
    running, database = cast(Stack, SimpleNamespace(obstacle="")), cast(Database, None)
    options = Options(data=Path(), once=once)
    return await command._serve(options, running, Settings(postgres_dsn="", kafka_servers=""), database, console)


async def test_a_failed_example_leaves_the_servers_running(example: None) -> None:
    console = Console(file=StringIO(), width=200, record=True)

    assert await serve(console, once=False) == 0
    assert console.export_text().splitlines()[0] == "the example ends: the producer of the example failed: no space"


async def test_a_failed_example_that_runs_once_is_an_error(example: None) -> None:
    with pytest.raises(ExceptionGroup):
        await serve(Console(file=StringIO()), once=True)


async def test_a_record_that_could_not_be_written_is_written_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "AGAIN_S", 0.01)
    recorder = Recorder(tmp_path / "home")
    recorder.change(web="http://127.0.0.1:1")
    (tmp_path / "home").mkdir()

    async with anyio.create_task_group() as tg:
        tg.start_soon(recorder.keep_written)
        await until((tmp_path / "home" / record.FILE).exists, 60)
        tg.cancel_scope.cancel()

    found = record.read(tmp_path / "home")
    assert found is not None
    assert found.web == "http://127.0.0.1:1"
