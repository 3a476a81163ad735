"""The web server of `tests/integration/web`, with DAGs that a test calls the API about."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.integration.cli.conftest import Answer
from tests.integration.cli.history import HOST, History
from tests.integration.web.conftest import Site, history, make_site, site
from tidegate.daemon.cli.app import run
from tidegate.daemon.permissions import Role

__all__ = ["history", "make_site", "site"]

Cli = Callable[..., Awaitable[Answer]]

DAG = """
from datetime import UTC, datetime
from tidegate import Dag, cron
with Dag("{id}", schedule=cron("0 6 * * *"), start_date=datetime(2040, 1, 1, tzinfo=UTC)) as dag:
    dag.command("first", ["true"]) >> dag.command("second", ["true"])
"""
"""Time starts no run during a test, at whatever hour it runs."""


async def two_dags(history: History) -> None:
    """DAGs `mine_a` and `other`, each with a run `r`."""
    for id_ in ("mine_a", "other"):
        await history.file(DAG.format(id=id_), f"{id_}.py")


@pytest.fixture
async def two(site: Site) -> Site:
    await two_dags(site.history)
    async with site.program() as client:
        for id_ in ("mine_a", "other"):
            answer = await client.post(f"/api/v1/dags/{id_}/runs", json={"run_id": "r"})
            assert answer.status_code == 201, answer.text
    return site


@pytest.fixture
async def cli(two: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Call `tidegate` with a token of the DAGs `mine_*`, and with no address of Postgres."""
    monkeypatch.setenv("TIDEGATE_HOST", HOST)
    monkeypatch.setenv("TIDEGATE_SPOOL_DIR", str(tmp_path / "spool"))
    monkeypatch.delenv("TIDEGATE_POSTGRES_DSN", raising=False)
    monkeypatch.setenv("TIDEGATE_SERVER", two.address)
    monkeypatch.setenv("TIDEGATE_TOKEN", await two.token(Role.EDITOR, user="anna", dags=("mine_*",)))

    async def call(*args: str) -> Answer:
        code = await anyio.to_thread.run_sync(partial(run, args))
        return Answer(code, *capsys.readouterr())

    return call
