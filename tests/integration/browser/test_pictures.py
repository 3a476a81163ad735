"""Pictures of the pages for the documentation: `make screenshots` takes them."""

import base64
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, ViewportSize

from tests import servers
from tests.integration.browser.conftest import IN_ONE_LOOP, IS_LIVE
from tests.integration.cli import dead_letters
from tests.integration.cli.history import DAEMON, HOST, History
from tests.integration.cli.spools import begun
from tests.integration.web.conftest import Site, serving
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.settings import Settings
from tidegate.daemon.web.app import SCREENS
from tidegate.daemon.web.screen import Screen
from tidegate.events import topics
from tidegate.schemas.dag import BACKENDS
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.queries import run_pages
from tidegate.schemas.state import RunState

DOCS = Path(__file__).parents[3] / "daemon" / "docs"
TAKES = bool(os.environ.get("TEST_PICTURES"))
LARGEST = 60_000
SIZE: ViewportSize = {"width": 1200, "height": 760}
WEBP = {"format": "webp", "quality": 60}

PICTURES = {
    "now": "/",
    "dags": "/dags",
    "dag": "/dags/daily_delays",
    "dag-history": "/dags/daily_delays/history",
    "dag-graph": "/dags/daily_delays/graph",
    "versions": "/dags/daily_delays/versions",
    "version": "/dags/daily_delays/versions/2",
    "run": "/dags/daily_delays/runs/{run}",
    "task": "/dags/daily_delays/runs/{run}/tasks/join",
    "backfills": "/backfills",
    "new-backfill": "/backfills/new?dag=carriers&start=2013-04-01&end=2013-04-10",
    "backfill": "/backfills/1",
    "datasets": "/datasets",
    "dataset": "/dataset?uri=lake://flights",
    "dataset-graph": "/datasets/graph",
    "event": "/events/{event}",
    "queue": "/queue",
    "pool": "/queue/pool?name=spark",
    "clusters": "/clusters",
    "dead-letters": "/dead-letters",
    "dead-letter": "/dead-letters/1",
    "import-errors": "/import-errors",
    "system": "/system",
    "notifications": "/notifications",
    "audit": "/audit",
}
"""A page each, in the order in which the documentation shows them."""

FAULT = "AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table or view `weather` cannot be found."
LOG = LogExcerpt(
    host=HOST,
    path="/var/lib/tidegate/spool/00000000-001b/log",
    tail="reading lake://flights of 2013-01-12\n336776 rows in 4 partitions\nreading lake://weather\n" + FAULT,
)
DAGS = """
from datetime import timedelta, UTC, datetime
from tidegate import Dag, Dataset, Email, cron
flights, weather, delays = Dataset("lake://flights"), Dataset("lake://weather"), Dataset("lake://delays")
with Dag("daily_delays", schedule=flights & weather, description="Delays of a day", tags=["example"],
         on_failure=[Email("data@example.org")]) as dag:
    dag.command("join", ["true"]) >> dag.sql("report", "SELECT 1", outlets=[delays]) >> dag.empty("done")
with Dag("carriers", schedule=cron("0 6 * * *"), run_immediately=False, tags=["example"]) as carriers:
    carriers.command("load", ["true"]) >> carriers.command("publish", ["true"])
with Dag("delay_models", schedule=delays, tags=["models"]) as models:
    for airport in ("ewr", "jfk", "lga"):
        models.command(f"fit_{airport}", ["true"], pool="spark", pool_slots=2)
"""
BEFORE = DAGS.replace(', description="Delays of a day"', "")


@pytest_asyncio.fixture(loop_scope="session")
async def example(chromium: str, postgres: str, template: str, broker: str, tmp_path: Path) -> AsyncIterator[Site]:
    """An installation for pictures."""
    name, prefix = await servers.create_database(postgres, template), f"pictures-{os.getpid()}."
    await topics.create(broker, prefix, 2, 1)
    settings = Settings(
        postgres_dsn=servers.dsn_of(postgres, name),
        kafka_servers=broker,
        topic_prefix=prefix,
        web_port=0,
        host=HOST,
        spool_dir=str(tmp_path / "spool"),
    )
    async with connect(settings.postgres_dsn, writer=DAEMON) as database, serving(settings, History(database)) as site:
        await _lived(site, tmp_path)
        yield site
    await servers.drop_database(postgres, name)
    await servers.delete_topics(broker, prefix)


async def _lived(site: Site, tmp_path: Path) -> None:
    history = site.history
    await history.daemon(backends=tuple(sorted(set(BACKENDS.values()))), parallelism=32)
    await history.database.pool.execute("INSERT INTO pool (name, slots) VALUES ('spark', 8)")
    await history.file(BEFORE, "example.py")
    await history.file(DAGS, "example.py")
    await history.broken_file("team/airports.py", "NameError: name 'Dga' is not defined", 3)
    await dead_letters.written(history)
    for day in range(1, 13):
        for source in ("flights", "weather"):
            await history.updated(f"lake://{source}", f"{source}-{day:02}", {"day": f"2013-01-{day:02}"})
        for attempt in await history.attempts_begin():
            how: dict[str, Any] = {"outcome": "failed", "reason": FAULT, "log": LOG} if day in (5, 12) else {}
            begun(tmp_path, attempt.submission_id).log.write_text(LOG.tail)
            await history.attempt_ends(attempt.submission_id, **how)
        if day != 11:
            await history.worked()
        await history.relayed()
        if day < 9:
            await history.admitted("spark")
            await history.worked()
    async with site.program() as client:
        body = {"dag_id": "carriers", "start_date": "2013-01-01T00:00:00Z", "end_date": "2013-04-01T00:00:00Z"}
        assert (await client.post("/api/v1/backfills", json=body)).is_success
    for day in range(40):
        await history.backfilled()
        for attempt in (await history.attempts_begin())[:3]:
            await history.attempt_ends(attempt.submission_id, *(("failed", FAULT) if day == 7 else ()))
    await history.admitted("spark")


if TAKES:

    @IN_ONE_LOOP
    async def test_take_pictures(browser: Browser, example: Site) -> None:
        context = await browser.new_context(base_url=example.address, viewport=SIZE)
        await context.request.post("/login", form={"token": await example.token()})
        page = await context.new_page()
        run = (await example.history.database.run(run_pages.list_runs, dag_id="daily_delays", state=RunState.FAILED, limit=1))[0]
        event = await example.history.database.pool.fetchval("SELECT max(id) FROM dataset_event WHERE event_id = 'flights-10'")
        for name, path in PICTURES.items():
            await page.goto(path.format(run=run.run_id, event=event))
            (DOCS / f"page-{name}.webp").write_bytes(await picture(page))
        await context.close()


async def picture(page: Page) -> bytes:
    """Up to the end of the page, or of the window."""
    session = await page.context.new_cdp_session(page)
    await page.wait_for_function(IS_LIVE)
    height = min(SIZE["height"], await page.evaluate("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom)"))
    clip = {"x": 0, "y": 0, "width": SIZE["width"], "height": height, "scale": 1}
    return base64.b64decode((await session.send("Page.captureScreenshot", {**WEBP, "clip": clip}))["data"])


def test_the_documents_show_a_picture_of_each_page() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(page-([\w-]+)\.webp\)", (DOCS / "pages.md").read_text())

    assert shown == list(PICTURES)
    assert sorted(path.stem for path in DOCS.glob("page-*.webp")) == sorted(f"page-{name}" for name in PICTURES)
    assert [path.name for path in DOCS.glob("page-*.webp") if path.stat().st_size > LARGEST] == []


@pytest.mark.parametrize("path", [screen.read.path for screen in SCREENS if isinstance(screen, Screen)])
def test_each_page_is_in_a_picture(path: str) -> None:
    pattern = re.sub(r"{\w+}", r"[^/?]+", path) + r"(\?.*)?"

    assert any(re.fullmatch(pattern, pictured) for pictured in PICTURES.values()), (
        "add it to PICTURES, and run `make screenshots`"
    )
