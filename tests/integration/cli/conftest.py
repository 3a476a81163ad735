"""The command line on a database of the test's own."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import anyio
import pytest

from tests.integration.cli import dead_letters
from tests.integration.cli.history import DAEMON, HOST, History
from tests.integration.cli.why_not import WhyNot
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


Cli = Callable[..., Awaitable[Answer]]


@pytest.fixture
def cli(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Call `tidegate` with arguments."""
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", dsn)
    monkeypatch.setenv("TIDEGATE_HOST", HOST)
    monkeypatch.setenv("TIDEGATE_SPOOL_DIR", str(tmp_path / "spool"))

    async def call(*args: str) -> Answer:
        code = await anyio.to_thread.run_sync(partial(run, args))
        return Answer(code, *capsys.readouterr())

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
def why(cli: Cli, history: History) -> WhyNot:
    return WhyNot(cli, history)


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
