"""The command line on a database of the test's own."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import anyio
import pytest

from tests.integration.cli import dead_letters
from tests.integration.cli.history import DAEMON, HOST, History
from tests.integration.cli.why_not import Wait, WhyNot
from tests.waiting import until
from tidegate.daemon.cli.app import run
from tidegate.daemon.postgres.database import connect


class Answer(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of the lines of stdout, where no cell has a space in it."""
        return [line.split() for line in self.out.splitlines()]

    @property
    def timeless(self) -> str:
        """Stdout with `0s` for all spans of seconds, and with single spaces."""
        return re.sub(" +", " ", re.sub(r"\b\d+s\b", "0s", self.out))


class Printed:
    """What commands print, also of one that has not ended."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._so_far = "", ""

    def so_far(self) -> tuple[str, str]:
        """Stdout and stderr since the last command that ended."""
        out, err = self._capsys.readouterr()
        self._so_far = self._so_far[0] + out, self._so_far[1] + err
        return self._so_far

    async def until_said(self, text: str) -> None:
        """Until it is on stderr. Raises TimeoutError."""
        await until(lambda: text in self.so_far()[1], 60)

    def take(self) -> tuple[str, str]:
        """All of it; nothing is left."""
        printed, self._so_far = self.so_far(), ("", "")
        return printed


Cli = Callable[..., Awaitable[Answer]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    return Printed(capsys)


@pytest.fixture
def cli(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Printed) -> Cli:
    """Call `tidegate` with arguments."""
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", dsn)
    monkeypatch.setenv("TIDEGATE_HOST", HOST)
    monkeypatch.setenv("TIDEGATE_SPOOL_DIR", str(tmp_path / "spool"))

    async def call(*args: str) -> Answer:
        code = await anyio.to_thread.run_sync(partial(run, args))
        return Answer(code, *printed.take())

    return call


@pytest.fixture
async def history(dsn: str) -> AsyncIterator[History]:
    async with connect(dsn, writer=DAEMON) as database:
        yield History(database)


@pytest.fixture
async def a_daemon(history: History) -> None:
    """One that shows life."""
    await history.daemon()


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Wait:
    return Wait(monkeypatch)


@pytest.fixture
def why(cli: Cli, history: History, wait: Wait) -> WhyNot:
    return WhyNot(cli, history, wait)


@pytest.fixture
async def dead(history: History) -> list[int]:
    """The ids of three dead letters, oldest first."""
    return await dead_letters.written(history)


@pytest.fixture
async def attempt(history: History) -> UUID:
    """The first try of `join`, which runs."""
    await history.file()
    await history.run()
    (claimed,) = await history.attempts_begin()
    return claimed.submission_id
