"""The command line on a database of the test's own."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import anyio
import pytest

from tests.integration.cli import letters
from tests.integration.cli.asked import Asked
from tests.integration.cli.past import DAEMON, HOST, Past
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
async def past(dsn: str) -> AsyncIterator[Past]:
    async with connect(dsn, writer=DAEMON) as database:
        yield Past(database)


@pytest.fixture
async def a_daemon(past: Past) -> None:
    """One that shows life."""
    await past.daemon()


@pytest.fixture
def asked(cli: Cli, past: Past) -> Asked:
    return Asked(cli, past)


@pytest.fixture
async def dead(past: Past) -> list[int]:
    """The ids of three dead letters, oldest first."""
    return await letters.written(past)


@pytest.fixture
async def attempt(past: Past) -> UUID:
    """The first try of `join`, which runs."""
    await past.file()
    await past.run()
    (claimed,) = await past.attempts_begin()
    return claimed.submission_id
