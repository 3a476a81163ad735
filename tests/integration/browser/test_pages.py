"""Every page in the browser: in the light and in the dark, narrow and wide, with the keyboard, and without JavaScript."""

import os
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, ConsoleMessage, Page

from tests.integration.browser.conftest import IN_ONE_LOOP, IS_LIVE
from tests.integration.browser.history import LONG_ID, LONG_POOL, LONG_RUN, LONG_TASK, LONG_URI, OVERRIDE, SHORTER, Installation
from tests.oidc_provider import OidcProvider
from tidegate.daemon.web.app import SCREENS
from tidegate.daemon.web.rendering import dag_url, run_url, task_url, url
from tidegate.daemon.web.screen import Form, Screen

pytestmark = IN_ONE_LOOP

LONG = bool(os.environ.get("TEST_LONG"))
WIDTHS = (320, 1024, 1440)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PATHS = [screen.read.path if isinstance(screen, Screen) else screen.preview.path for screen in SCREENS]
LONG_NAMES = (
    dag_url(LONG_ID),
    dag_url(LONG_ID, "trigger"),
    dag_url(LONG_ID, "graph"),
    dag_url(SHORTER[0]),
    run_url(LONG_ID, LONG_RUN),
    run_url(LONG_ID, LONG_RUN, "clear"),
    task_url(LONG_ID, LONG_RUN, LONG_TASK),
    url("dataset", uri=LONG_URI),
    url("datasets", "graph", uri=LONG_URI),
    url("queue", "pool", name=LONG_POOL),
)
OTHERS = ("/login", "/nowhere", *LONG_NAMES)

IDS = [*PATHS, *OTHERS]

FORMS = [screen.preview.path for screen in SCREENS if isinstance(screen, Form)]
"""They share a template."""

SHORT = [path for path in IDS if path not in FORMS[2:]]


class Faults:
    """What the console of a page reports."""

    def __init__(self, page: Page) -> None:
        self.found: list[str] = []
        page.on("console", self._add)
        page.on("pageerror", lambda error: self.found.append(str(error)))

    def _add(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "status of 404" not in message.text:
            self.found.append(message.text)


def address(installation: Installation, path: str) -> str:
    return installation.addresses.get(path, path)


async def violations(page: Page) -> list[str]:
    """What axe-core finds, with the element and the way to mend it."""
    found: dict[str, Any] = (await Axe().run(page)).response
    return [
        f"{rule['id']}: {node['html'][:160]} {node['failureSummary']}" for rule in found["violations"] for node in rule["nodes"]
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def reader(browser: Browser, installation: Installation) -> AsyncIterator[Page]:
    """A page of an administrator that goes from address to address: a new one for each takes most of the time."""
    context = await browser.new_context(base_url=installation.site.address)
    await context.request.post("/login", form={"token": await installation.site.token()})
    yield await context.new_page()
    await context.close()


@pytest.mark.long
@pytest.mark.parametrize("path", IDS if LONG else SHORT)
async def test_a_page_can_be_read_by_all(installation: Installation, reader: Page, path: str) -> None:
    """Axe at one width and in one scheme, which differ from page to page; in the long run at both and in both."""
    faults, found = Faults(reader), []
    number = IDS.index(path)
    await reader.goto(address(installation, path))
    found += [f"an override in {html}" for html in await reader.evaluate(OVERRIDDEN, OVERRIDE)]
    for width in WIDTHS:
        await reader.set_viewport_size({"width": width, "height": 900})
        found += await beyond_the_edge(reader, width)
        found += [f"{width}: {html} scrolls" for html in await reader.evaluate(CUT, width)]
        found += [f"{width}: a state is cut in {html}" for html in await reader.evaluate(STATES_CUT)]
        for scheme in SCHEMES:
            if LONG or (WIDTHS.index(width), SCHEMES.index(scheme)) == (number % 2 * 2, number // 2 % 2):
                await reader.emulate_media(color_scheme=scheme)
                found += [f"{width} {scheme} {text}" for text in await violations(reader)]

    assert found == []
    assert faults.found == []
    if path in PATHS:
        assert await reader.locator('nav[aria-label="Pages"] [aria-current]').count() == 1


WIDER = """width => [...document.querySelectorAll("body *")]
  .filter(e => e.getBoundingClientRect().right > width + 1 && !e.closest(".wide, pre, .hidden, .to-main"))
  .map(e => e.outerHTML.slice(0, 120))"""


CUT = """width => [...document.querySelectorAll(".wide")]
  .filter(e => e.scrollWidth > e.clientWidth && (width > 1000 || e.querySelector(":scope > .listed")))
  .filter(e => !e.querySelector(".grid, .graph, .heat, .durations"))
  .map(e => e.outerHTML.slice(0, 160))"""
"""A table hides no column on a screen of 1024 pixels, nor where a narrow screen shows it as a list. Drawings scroll."""

STATES_CUT = """() => [...document.querySelectorAll(".wide .chip, .grid td:first-of-type .cell")].filter(e => e.checkVisibility())
  .filter(e => e.getBoundingClientRect().right > e.closest(".wide").getBoundingClientRect().right + 1)
  .map(e => e.closest("table").outerHTML.slice(0, 160))"""
"""A state is seen without scrolling."""

OVERRIDDEN = """override => [document.head, ...document.querySelectorAll("body > *")]
  .flatMap(e => e.outerHTML.split("\\n")).filter(line => line.includes(override)).map(line => line.slice(0, 160))"""
"""The lines of the page in which a control turns text round."""


async def beyond_the_edge(page: Page, width: int) -> list[str]:
    """The page does not scroll sideways."""
    if await page.evaluate("document.documentElement.scrollWidth") <= width:
        return []
    return [f"{width}: {html}" for html in await page.evaluate(WIDER, width)] or [f"{width}: the page scrolls"]


async def test_a_login_at_a_provider_is_two_keys_and_a_refused_one_says_why(
    browser: Browser, installation: Installation, provider: OidcProvider
) -> None:
    context = await browser.new_context(base_url=installation.site.address)
    page = await context.new_page()
    faults = Faults(page)

    async def log_in() -> str:
        await page.goto("/dags?search=a")
        await page.locator("main a.button.main").focus()
        async with page.expect_navigation():
            await page.keyboard.press("Enter")
        return await page.locator("body").inner_text()

    provider.claims["groups"] = ["guests"]
    refused, found = await log_in(), await violations(page)
    provider.claims["groups"] = ["data"]
    accepted, shown = await log_in(), page.url
    await context.close()

    assert "anna has no role here: TIDEGATE_LOGIN_ROLES gives none to its groups guests" in refused
    assert "anna, editor" in accepted
    assert shown == f"{installation.site.address}/dags?search=a"
    assert found == []
    assert [text for text in faults.found if "status of 403" not in text] == []


FOCUSED = """() => {
  const it = document.activeElement, style = getComputedStyle(it);
  it.dataset.reached = style.outlineStyle !== "none" || style.boxShadow !== "none" ? "seen" : "unseen";
  return it.tagName;
}"""
MISSED = """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")]
  .filter(e => e.checkVisibility() && e.dataset.reached !== "seen" && !e.disabled).map(e => e.outerHTML.slice(0, 160))"""


@pytest.mark.long
@pytest.mark.parametrize("path", IDS if LONG else SHORT[3:5])
async def test_everything_is_reached_by_the_keyboard(installation: Installation, page: Page, path: str) -> None:
    await page.goto(address(installation, path))
    await page.wait_for_function(IS_LIVE)
    await page.evaluate("document.body.tabIndex = -1, document.body.focus()")
    for _ in range(1000):
        await page.keyboard.press("Tab")
        if await page.evaluate(FOCUSED) == "BODY":
            break

    assert await page.evaluate(MISSED) == []


@pytest.mark.long
@pytest.mark.parametrize("path", IDS if LONG else SHORT[5:7])
async def test_a_page_reads_the_same_without_javascript(browser: Browser, installation: Installation, path: str) -> None:
    token = await installation.site.token()
    texts = []
    for enabled in (True, False):
        context = await browser.new_context(base_url=installation.site.address, java_script_enabled=enabled)
        await context.request.post("/login", form={"token": token})
        page = await context.new_page()
        await page.goto(address(installation, path))
        texts.append((await page.locator("main").inner_text(), await page.locator("main a, main button").count()))
        await context.close()

    assert words(texts[0][0]) == words(texts[1][0])
    assert texts[0][1] == texts[1][1]


def words(text: str) -> list[str]:
    """Without times, which pass."""
    return [word for word in text.split() if not any(character.isdigit() for character in word)]


SUBMIT = "main form[method=post] button.main"

LAST_ACTIONS = ("change", "retry", "cancel", "delete")
"""Of a backfill: after the others, and in this order."""


def rank(path: str) -> int:
    action = path.rpartition("/")[2]
    return 1 + LAST_ACTIONS.index(action) if path.startswith("/backfills/") and action in LAST_ACTIONS else 0


@pytest.mark.long
async def test_every_action_is_done_by_the_keyboard(installation: Installation, page: Page) -> None:
    """It is the last test of the file: the pages are others afterwards."""
    failed = []
    for path in sorted(FORMS, key=rank) if LONG else FORMS[:2]:
        await installation.site.history.backfilled()
        await page.goto(address(installation, path))
        if not await is_submitted(page):
            failed.append((path, page.url, await page.locator("main").inner_text()))

    assert failed == []


async def is_submitted(page: Page) -> bool:
    """Fill the required fields, tab to the button of the form, and press Enter."""
    if not await page.locator(SUBMIT).count():
        return False
    await page.locator("h1").first.evaluate("heading => { heading.tabIndex = -1; heading.focus(); }")
    while not await page.evaluate(f"document.activeElement.matches('{SUBMIT}, body')"):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.matches('form[method=post] :required')"):
            await page.keyboard.type("8")
    async with page.expect_navigation() as shown:
        await page.keyboard.press("Enter")
    answer = await shown.value
    return answer.ok and answer.request.redirected_from is not None


CHAIN = """
from tidegate import Dag
with Dag("chain") as dag:
    last = dag.empty("t0")
    for number in range(1, 12):
        last = last >> dag.empty(f"t{number}")
"""


async def test_a_graph_fits_its_card_until_its_actual_size_is_wanted(installation: Installation, page: Page) -> None:
    await installation.site.history.file(CHAIN, "chain.py")
    await page.goto("/dags/chain/graph")
    graph, card = page.locator("svg.graph"), page.locator(".card", has=page.locator("svg.graph"))

    async def widths() -> tuple[float, float]:
        boxes = [await graph.bounding_box(), await card.bounding_box()]
        return boxes[0]["width"], boxes[1]["width"]  # type: ignore[index]

    fitted, room = await widths()
    await page.get_by_label("actual size").check()
    full, _ = await widths()

    assert fitted < room < full
    assert full == 11 * 250 + 190 + 4


PASTED = """async () => {
  const field = document.body.appendChild(document.createElement("textarea"));
  field.focus();
  return navigator.clipboard.readText();
}"""


async def test_a_name_that_is_shortened_is_copied_whole(installation: Installation, browser: Browser) -> None:
    context = await browser.new_context(base_url=installation.site.address, permissions=["clipboard-read", "clipboard-write"])
    await context.request.post("/login", form={"token": await installation.site.token()})
    page = await context.new_page()
    copied = []
    for path, names in ((dag_url(LONG_ID), (LONG_ID, LONG_TASK)), (url("dataset", uri=LONG_URI), (LONG_URI,))):
        await page.goto(path)
        for name in names:
            await page.get_by_role("button", name=f"Copy {name}").first.click()
            copied.append((await page.evaluate(PASTED), name))
    await page.goto(dag_url(LONG_ID, "graph"))
    await page.get_by_text("shortened").click()
    await page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject())")  # as over plain HTTP
    await page.get_by_role("button", name=f"Copy {LONG_TASK}").click()
    copied.append((await page.evaluate(PASTED), LONG_TASK))
    await context.close()

    assert [text for text, _ in copied] == [name for _, name in copied]


async def test_without_scripts_no_button_copies(installation: Installation, browser: Browser) -> None:
    context = await browser.new_context(base_url=installation.site.address, java_script_enabled=False)
    await context.request.post("/login", form={"token": await installation.site.token()})
    page = await context.new_page()
    await page.goto(dag_url(LONG_ID))

    assert not await page.locator(".copy").first.is_visible()
    await context.close()
