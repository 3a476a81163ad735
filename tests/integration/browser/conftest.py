"""One browser and one installation for all tests of a process, in one event loop.

A test in this folder has the mark of that loop: `pytestmark = IN_ONE_LOOP`.
"""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests import servers
from tests.chromium import ARGUMENTS, HOW, path
from tests.integration.browser.history import Installation, lived
from tests.integration.cli.history import DAEMON, History
from tests.integration.web.conftest import serving
from tests.oidc_provider import CLIENT, SECRET, OidcProvider, oidc_provider
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.settings import Settings
from tidegate.events import topics

expect.set_options(timeout=60_000)
IN_ONE_LOOP = pytest.mark.asyncio(loop_scope="session")

IS_LIVE = "() => { const sign = document.querySelector('#live'); return !sign || (!sign.hidden && sign.textContent === 'live') }"
"""A page that is not live, such as a form, has no sign."""


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium."""
    found = path()
    if found is None:
        pytest.skip(HOW)
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        yield launched
        await launched.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def provider() -> AsyncIterator[OidcProvider]:
    """The OIDC provider at which users of the installation may log in."""
    async with oidc_provider() as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def installation(
    chromium: str, postgres: str, template: str, broker: str, provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    """A web server, on a database in which much has happened."""
    name, prefix = await servers.create_database(postgres, template), f"browser-{os.getpid()}."
    dsn = servers.dsn_of(postgres, name)
    await topics.create(broker, prefix, 2, 1)
    settings = Settings(
        postgres_dsn=dsn,
        kafka_servers=broker,
        topic_prefix=prefix,
        web_port=0,
        web_requests_per_s=0,
        spool_dir=str(tmp_path_factory.mktemp("spool")),
        oidc_issuer=provider.issuer,
        oidc_client_id=CLIENT,
        oidc_client_secret=SECRET,
        login_roles='{"data": "editor"}',
    )
    async with connect(dsn, writer=DAEMON) as database, serving(settings, History(database)) as site:
        yield Installation(site, broker, prefix, await lived(site))
    await servers.drop_database(postgres, name)
    await servers.delete_topics(broker, prefix)


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser, installation: Installation) -> AsyncIterator[BrowserContext]:
    """A browser of an administrator, who has logged in."""
    made = await browser.new_context(base_url=installation.site.address)
    await made.request.post("/login", form={"token": await installation.site.token()})
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext) -> Page:
    return await context.new_page()
