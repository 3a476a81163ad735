"""The cursors that the benchmark of a large installation makes are those of the server's lists."""

from tests.benchmarks.large_installation import Facts
from tests.benchmarks.page_requests import requests
from tests.integration.web.conftest import Site
from tidegate.daemon.gateway import cursor

FACTS = Facts(
    failed="failed",
    running="running",
    wide="wide",
    dags=100,
    datasets=100,
    letters=100,
    notifications=100,
    deadlines=100,
    audits=100,
    event=100 * 10**12,
    hot_event=10 * 10**12,
    backfills=100,
    running_backfill=7,
    middle_run=("hot", "middle"),
    early_run=("hot", "early"),
)


async def test_no_list_refuses_a_cursor(site: Site) -> None:
    asked = [each.address for each in requests(FACTS) if "cursor=" in each.address]

    async with site.browser() as client:
        refused = [address for address in asked if cursor.NOT_OURS in (await client.get(address)).text]

    assert asked
    assert refused == []
