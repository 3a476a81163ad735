"""The log of a task in the browser: where it opens, and its colours."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, Page

from tests import servers
from tests.integration.browser.conftest import IN_ONE_LOOP
from tests.integration.browser.test_pages import Faults, beyond_the_edge, violations
from tests.integration.cli.history import DAEMON, HOST, History
from tests.integration.cli.spools import begun
from tests.integration.web.conftest import serving
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.settings import Settings

pytestmark = IN_ONE_LOOP

TASK = "/dags/daily_delays/runs/latest/tasks/join"
LINE = b"a line of the log of a task\n"
COLOURS = b"".join(b"\x1b[%dmcolour %d\x1b[0m " % (code, code) for code in (1, 4, *range(30, 38), *range(90, 98))) + b"\n"
ERROR = b'Traceback (most recent call last):\n  File "a.py", line 1\n\x1b[31mValueError\x1b[0m: no\n'

SEEN = """selector => {
  const log = document.querySelector("pre.log"), box = log.getBoundingClientRect();
  const place = log.querySelector(selector).getBoundingClientRect();
  return box.top <= place.top && place.bottom <= box.bottom;
}"""
AT_END = "() => { const log = document.querySelector('pre.log'); return log.scrollHeight - log.scrollTop - log.clientHeight < 4 }"


@pytest_asyncio.fixture(loop_scope="session")
async def task(browser: Browser, postgres: str, template: str, tmp_path: Path) -> AsyncIterator[Page]:
    """A page at the host of a failed task, whose log has its error in the midst."""
    name = await servers.create_database(postgres, template)
    dsn, spool_dir = servers.dsn_of(postgres, name), str(tmp_path / "spool")
    settings = Settings(postgres_dsn=dsn, kafka_servers="", web_port=0, host=HOST, spool_dir=spool_dir, web_requests_per_s=0)
    async with connect(dsn, writer=DAEMON) as database, serving(settings, History(database)) as site:
        await site.history.file()
        await site.history.run()
        (attempt,) = await site.history.attempts_begin()
        begun(tmp_path, attempt.submission_id).log.write_bytes(LINE * 20_000 + COLOURS + ERROR + LINE * 20_000)
        await site.history.attempt_ends(attempt.submission_id, "failed", reason=f"ValueError: no ({os.getpid()})")
        context = await browser.new_context(base_url=site.address)
        await context.request.post("/login", form={"token": await site.token()})
        yield await context.new_page()
        await context.close()
    await servers.drop_database(postgres, name)


async def test_a_log_opens_at_its_error_else_at_its_end_and_leads_to_what_is_searched(task: Page) -> None:
    await task.goto(TASK)
    at_error = await task.evaluate(SEEN, "#at")
    await task.get_by_role("link", name="End").click()
    await task.get_by_role("searchbox", name="A text in the log").fill("valueerror")
    await task.get_by_role("button", name="Search").nth(0).focus()
    await task.get_by_role("searchbox", name="A text in the log").press("Enter")
    await task.locator(".found a").click()

    assert at_error
    assert await task.evaluate(SEEN, "mark")
    await task.goto(f"{TASK}?offset=0")
    assert await task.evaluate("document.querySelector('pre.log').scrollTop") == 0
    await task.goto(f"{TASK}?try=1&at=1100000")
    assert await task.evaluate(SEEN, "#at")


async def test_the_log_of_a_task_at_work_opens_at_its_end(task: Page) -> None:
    await task.goto(f"{TASK}?search=nowhere")
    await task.evaluate("document.querySelector('pre.log').setAttribute('data-end', ''); document.querySelector('#at').remove()")
    await task.evaluate("showInLog()")

    assert await task.evaluate(AT_END)


async def test_a_log_that_was_followed_to_its_end_shows_the_error_of_a_failure(task: Page) -> None:
    """The page as it was before the failure: at its end, without an error."""
    await task.goto(TASK)
    await task.evaluate(
        """() => {
          const log = document.querySelector("pre.log");
          log.querySelector("#at").remove();
          log.scrollTop = log.scrollHeight;
        }"""
    )
    await task.evaluate("readAgain()")
    await task.locator("#at").wait_for(state="attached")

    await task.wait_for_function(SEEN, arg="#at")


async def test_a_coloured_log_can_be_read_by_all(task: Page) -> None:
    faults = Faults(task)
    for scheme, width in (("light", 1440), ("dark", 320)):
        await task.set_viewport_size({"width": width, "height": 900})
        await task.emulate_media(color_scheme="light" if scheme == "light" else "dark")
        await task.goto(f"{TASK}?search=colour")
        assert await violations(task) == []
        assert await beyond_the_edge(task, width) == []

    assert faults.found == []
    colours = "[...document.querySelectorAll('.log span[class]')].map(e => getComputedStyle(e).color)"
    assert len(set(await task.evaluate(colours))) >= 6
