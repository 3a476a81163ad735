"""The web server of `tests/integration/web`, with DAGs that a test calls the API about."""

import pytest

from tests.integration.cli.history import History
from tests.integration.web.conftest import Site, history, make_site, site

__all__ = ["history", "make_site", "site"]

DAG = """
from tidegate import Dag, cron
with Dag("{id}", schedule=cron("0 6 * * *"), catchup=False) as dag:
    dag.command("first", ["true"]) >> dag.command("second", ["true"])
"""


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
