"""A client that openapi-python-client makes of the document of a server, and its requests to that server."""

import importlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests import client_generator
from tests.integration.web.conftest import PATIENCE_S, Site
from tidegate.daemon.standalone.web import NO_TLS

PACKAGE = "generated_tidegate_client"


@pytest.fixture
async def package(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """Imports modules of the generated package."""
    async with site.anonymous() as client:
        (tmp_path / "openapi.json").write_bytes((await client.get("/api/v1/openapi.json")).content)
    (tmp_path / "options.yml").write_text("post_hooks: []\n")
    generate = client_generator.command(tmp_path / "openapi.json", tmp_path / "options.yml", tmp_path / PACKAGE)
    made = await anyio.run_process(generate, env=client_generator.environment(), check=False)
    assert made.returncode == 0, made.stdout.decode() + made.stderr.decode()
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda name: importlib.import_module(f"{PACKAGE}.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


async def test_a_generated_client_lists_starts_and_reads(site: Site, package: Any) -> None:
    await site.history.file()
    models, dags, runs = package("models"), package("api.dags.list_dags"), package("api.runs.trigger_run")
    client = package("client").AuthenticatedClient(
        base_url=f"{site.address}/api/v1", token=await site.token(), verify_ssl=NO_TLS, timeout=PATIENCE_S
    )
    async with client:
        listed = await dags.asyncio(client=client)
        run = await runs.asyncio("daily_delays", client=client, body=models.NewRun(run_id="made"))
        again = await runs.asyncio("daily_delays", client=client, body=models.NewRun(run_id="made"))
        shown = await package("api.runs.show_run").asyncio("daily_delays", "made", client=client)
        absent = await package("api.dags.show_dag").asyncio("none", client=client)
        system = await package("api.system.show_system").asyncio(client=client)

    assert [dag.dag.dag_id for dag in listed.items] == ["daily_delays"]
    assert (run.run_id, run.state.value) == ("made", "running")
    assert (again.status, again.type_) == (409, "urn:tidegate:problem:refused")
    assert shown.run.run_id == "made"
    assert {task.task.state.value for task in shown.tasks} <= {"none", "scheduled"}
    assert absent.detail == "there is no DAG 'none'; `GET /dags` shows all"
    assert system.daemons == []
