"""Open pages follow changes, say what is away, and recover by themselves."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from playwright.async_api import BrowserContext, Page, Request, Route, expect

from tests.integration.browser.conftest import IN_ONE_LOOP
from tests.integration.browser.history import FAILING, Installation
from tests.integration.events.states import Relay, run
from tests.integration.web.conftest import Site, serving
from tests.waiting import until
from tidegate.daemon.standalone.port import choose
from tidegate.events.sink import Sink
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import credentials

pytestmark = IN_ONE_LOOP

SIGN = "#live"
DAG = "/dags/flights_import"
ONE_RUN = f"{DAG}/runs/good"


@asynccontextmanager
async def relay(installation: Installation) -> AsyncIterator[Relay]:
    async with Sink(installation.kafka) as sink:
        yield Relay(sink, installation.topic_prefix)


async def opened(page: Page, path: str) -> None:
    """The page, once it follows changes."""
    await page.goto(path)
    await expect(page.locator(SIGN)).to_have_text("live")


async def described(site: Site, text: str) -> None:
    """The pages of the DAG have another description."""
    await site.history.file(FAILING.replace("Loads the flights of a day", text), "flights.py")


async def test_a_page_shows_a_change_and_keeps_what_its_reader_did(installation: Installation, page: Page) -> None:
    await opened(page, DAG)
    await page.locator("summary", has_text="All gates").click()
    await page.locator("input[type=date]").fill("2013-01-01")
    await page.get_by_role("link", name="Trigger…").focus()
    await described(installation.site, "It was changed")
    async with relay(installation) as sending:
        await sending.send(replace(run(1, "good"), dag_id="flights_import"))
        await expect(page.locator("main")).to_contain_text("It was changed")

    assert await page.locator("details[open]").count() == 1
    assert await page.locator("input[type=date]").input_value() == "2013-01-01"
    assert await page.evaluate("document.activeElement.textContent") == "Trigger…"


async def test_a_page_is_not_read_again_for_another_run(installation: Installation, page: Page) -> None:
    await opened(page, ONE_RUN)
    reads: list[Request] = []
    page.on("request", lambda request: reads.append(request) if request.resource_type == "fetch" else None)
    async with relay(installation) as sending:
        await sending.send(replace(run(2, "bad"), dag_id="flights_import"))
        async with page.expect_request(lambda request: request.resource_type == "fetch"):
            await sending.send(replace(run(2, "good"), dag_id="flights_import"))

    assert len(reads) == 1


async def test_a_server_that_is_away_is_named(installation: Installation, page: Page) -> None:
    outages = installation.site.service.hub.outages
    await opened(page, DAG)
    outages.begin(UnavailableError("Kafka does not answer at k:9092"))
    await expect(page.locator(SIGN)).to_have_text("Kafka away")
    await expect(page.get_by_text("Kafka does not answer at k:9092")).to_be_visible()
    outages.end("Kafka")
    await expect(page.locator(SIGN)).to_have_text("live")


async def test_a_slash_jumps_to_the_search_unless_it_is_a_command(installation: Installation, page: Page) -> None:
    await opened(page, DAG)
    focus = []
    for keys in ("Control+/", "/"):
        await page.keyboard.press(keys)
        focus.append(await page.evaluate("document.activeElement.name"))

    assert focus == [None, "search"]


async def test_a_page_recovers_when_its_server_starts_again(installation: Installation, context: BrowserContext) -> None:
    site = installation.site
    settings = replace(site.service.settings, web_port=choose(1)[0])
    page = await context.new_page()
    async with serving(settings, site.history) as first:
        await context.request.post(f"{first.address}/login", form={"token": await site.token()})
        await opened(page, first.address + DAG)
    await expect(page.locator(SIGN)).to_have_text("no connection")
    await described(site, "It was changed meanwhile")
    async with serving(settings, site.history):
        await expect(page.locator(SIGN)).to_have_text("live")
        await expect(page.locator("main")).to_contain_text("It was changed meanwhile")


async def test_after_a_logout_elsewhere_a_page_asks_to_log_in(installation: Installation, context: BrowserContext) -> None:
    page = await context.new_page()
    await context.request.post("/login", form={"token": await installation.site.token(user="ben")})
    await opened(page, DAG)
    tokens = await installation.site.history.database.run(credentials.list_tokens)
    for token in tokens:
        if token.username == "ben":
            await installation.site.history.database.run(credentials.revoke, token.id)
    await expect(page.locator(SIGN)).to_have_text("log in again")
    await page.locator(SIGN).click()
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()


async def test_a_page_of_an_earlier_version_asks_to_be_loaded(installation: Installation, page: Page) -> None:
    async def newer(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=(await answer.text()).replace("page.js?v=", "page.js?v=0"))

    await opened(page, DAG)
    await page.route(f"**{DAG}", newer)
    await page.evaluate("readAgain()")
    await expect(page.locator(SIGN)).to_have_text("reload")


async def test_a_read_that_is_never_answered_is_given_up(installation: Installation, page: Page) -> None:
    """A proxy may have lost the connection."""

    async def lose(_: Route) -> None:
        """Never answered."""

    await opened(page, DAG)
    await page.evaluate("const within = AbortSignal.timeout; AbortSignal.timeout = () => within.call(AbortSignal, 50)")
    await page.route(f"**{DAG}", lose)
    streams = set(installation.site.service.hub)
    await page.evaluate("readAgain()")
    await expect(page.locator(SIGN)).to_have_text("no connection")
    await until(lambda: not streams & set(installation.site.service.hub), 60)  # another takes its place


async def test_a_page_is_read_as_often_as_it_says_now(installation: Installation, page: Page) -> None:
    """A task that begins to work makes its page one that is read every few seconds."""

    async def at_work(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=(await answer.text()).replace('data-every="60"', 'data-every="0.1"'))

    def is_fetch(request: Request) -> bool:
        return request.resource_type == "fetch"

    await opened(page, DAG)
    await page.route(f"**{DAG}", at_work)
    async with page.expect_request(is_fetch):
        await page.evaluate("readAgain()")
    async with page.expect_request(is_fetch):
        pass


async def test_a_page_of_a_standby_is_read_again_after_a_change(installation: Installation, page: Page) -> None:
    """The standby may have been behind, and its page the state before."""

    async def of_standby(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(
            response=answer, body=(await answer.text()).replace(' data-every="', ' data-settle="0.1" data-every="')
        )

    await page.route(f"**{DAG}", of_standby)
    await opened(page, DAG)
    await page.evaluate("readChange()")
    for _ in range(2):
        async with page.expect_request(lambda request: request.resource_type == "fetch"):
            pass


async def test_a_fault_of_the_script_is_no_lost_connection(installation: Installation, page: Page) -> None:
    await opened(page, DAG)
    await page.evaluate("morph = () => { throw new Error('broken'); }; readAgain()")
    await expect(page.locator(SIGN)).to_have_text("reload")


HIDE = """isHidden => {
  Object.defineProperty(document, "hidden", {value: Boolean(isHidden), configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_a_page_that_is_not_seen_holds_no_connection(installation: Installation, page: Page) -> None:
    hub = installation.site.service.hub
    await opened(page, ONE_RUN)
    await until(lambda: len(list(hub)) == 1, 60)  # those of pages before it end
    await page.evaluate(HIDE, 1)
    await until(lambda: not list(hub), 60)
    async with page.expect_request(lambda request: request.resource_type == "fetch"):
        await page.evaluate(HIDE, 0)
    await until(lambda: list(hub), 60)


WINDOWS = 8
"""More than the connections of a browser to a server."""


async def test_many_windows_share_one_stream_and_all_answer(installation: Installation, context: BrowserContext) -> None:
    site, hub = installation.site, installation.site.service.hub
    pages = [await context.new_page() for _ in range(WINDOWS)]
    paths = [(DAG, ONE_RUN, "/dags", "/")[number % 4] for number in range(WINDOWS)]
    for page, path in zip(pages, paths, strict=True):
        await opened(page, path)
    await until(lambda: len(list(hub)) == 1, 60)  # those of tests before end

    await described(site, "All of them see it")
    async with relay(installation) as sending:
        await sending.send(replace(run(11, "good"), dag_id="flights_import"))
        for page, path in zip(pages, paths, strict=True):
            if path == DAG:
                await expect(page.locator("main")).to_contain_text("All of them see it")
        await pages[0].close()  # which had opened the stream
        await described(site, "The others go on")
        await sending.send(replace(run(12, "good"), dag_id="flights_import"))
        await expect(pages[4].locator("main")).to_contain_text("The others go on")

    assert len(list(hub)) == 1
    assert [await page.locator(SIGN).inner_text() for page in pages[1:]] == ["live"] * (WINDOWS - 1)


async def test_the_last_window_misses_nothing_that_came_while_none_was_seen(
    installation: Installation, context: BrowserContext
) -> None:
    site, hub = installation.site, installation.site.service.hub
    first, second = await context.new_page(), await context.new_page()
    await opened(first, DAG)
    await opened(second, DAG)
    await second.evaluate(HIDE, 1)
    await first.close()
    await until(lambda: not list(hub), 60)
    await described(site, "Nobody saw it")
    async with relay(installation) as sending:
        await sending.send(replace(run(13, "good"), dag_id="flights_import"))
    await second.evaluate(HIDE, 0)
    await expect(second.locator("main")).to_contain_text("Nobody saw it")
    await until(lambda: len(list(hub)) == 1, 60)


async def test_a_window_that_joins_late_is_read_again_for_what_it_missed(
    installation: Installation, context: BrowserContext
) -> None:
    """A change between the read of its page and the first message of its worker."""

    async def earlier(route: Route) -> None:
        answer = await route.fetch()
        body = (await answer.text()).replace("Loads the flights of a day", "What was before")
        await route.fulfill(response=answer, body=re.sub('data-after="[^"]*"', 'data-after="0.0.0.0"', body))

    await described(installation.site, "Loads the flights of a day")
    first, second = await context.new_page(), await context.new_page()
    await opened(first, DAG)
    await second.route(f"**{DAG}", earlier, times=1)
    await second.goto(DAG)
    await expect(second.locator("main")).to_contain_text("Loads the flights of a day")


async def test_a_page_is_not_read_for_changes_of_others(installation: Installation, page: Page) -> None:
    is_about = "all => all.map(isAbout)"
    await opened(page, DAG)
    assert await page.evaluate(is_about, [[["other", "r"]], [["flights_import", "r"]], None]) == [False, True, True]
    await opened(page, ONE_RUN)
    others, its = [["flights_import", "bad"], ["other", "good"]], [["other", "x"], ["flights_import", "good"]]
    assert await page.evaluate(is_about, [others, its]) == [False, True]


async def test_a_browser_without_shared_workers_reads_its_pages_every_few_seconds(installation: Installation, page: Page) -> None:
    await page.add_init_script("delete globalThis.SharedWorker")
    await page.goto(DAG)
    await expect(page.locator(SIGN)).to_have_text("not live")
    await page.evaluate("main.dataset.poll = 0.1; readRegularly()")
    await described(installation.site, "It was polled")
    await expect(page.locator("main")).to_contain_text("It was polled")


SECTION = "<section><h2>{0}</h2><table><tbody>{1}</tbody></table></section>"
ROW = '<tr><td><a href="/{0}">{0}</a></td><td>{1}</td></tr>'
BEFORE = SECTION.format("Tasks", ROW.format("a", 1) + ROW.format("b", 1)) + "<p>text</p>"


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        "",
        SECTION.format("Failed", ROW.format("b", 2)) + BEFORE,
        SECTION.format("Tasks", ROW.format("b", 1) + ROW.format("a", 2)),
        SECTION.format("Tasks", ROW.format("c", 1) + ROW.format("a", 1) + ROW.format("a", 1)) + "other <b>text</b>",
        BEFORE.replace("<p>", '<p class="why" title="&lt;b&gt;">'),
    ],
)
async def test_a_page_becomes_what_was_read(page: Page, after: str) -> None:
    """Links stay elements of one address: none leads elsewhere while it is about to be pressed."""
    changed = """([before, after]) => {
      const old = document.createElement("main"), fresh = document.createElement("main");
      old.innerHTML = before, fresh.innerHTML = after;
      const links = [...old.querySelectorAll("a")].map(link => [link, link.href]), wanted = fresh.innerHTML;
      morph(old, fresh);
      return [old.innerHTML === wanted, links.every(([link, href]) => link.href === href)];
    }"""
    await page.goto("/login")

    assert await page.evaluate(changed, [BEFORE, after]) == [True, True]
