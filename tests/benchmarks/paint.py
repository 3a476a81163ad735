"""The first paint of pages in Chromium."""

from collections.abc import Mapping, Sequence

import httpx
from playwright.async_api import Page, async_playwright

from tests.benchmarks.page_requests import Asked
from tests.chromium import ARGUMENTS, HOW, path

TIMES = 5

PAINTED_AT = """() => new Promise((resolve) => new PerformanceObserver((list) => {
    for (const entry of list.getEntriesByName("first-contentful-paint")) resolve(entry.startTime);
}).observe({ type: "paint", buffered: true }))"""


async def first_paints(client: httpx.AsyncClient, asked: Sequence[Asked]) -> Mapping[str, Sequence[float]]:
    """By page, the times in ms from the request to its first content, in a browser that knows the style sheet and the script.

    Raises LookupError without a Chromium.
    """
    chromium = path()
    if chromium is None:
        raise LookupError(HOW)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        headers = {"authorization": client.headers["authorization"]}
        context = await browser.new_context(base_url=str(client.base_url), extra_http_headers=headers)
        page = await context.new_page()
        found = {each.what: [await _paint_ms(page, each.address) for _ in range(TIMES + 1)][1:] for each in asked}
        await browser.close()
    return found


async def _paint_ms(page: Page, address: str) -> float:
    await page.goto(address, wait_until="commit")
    return float(await page.evaluate(PAINTED_AT))
