"""The page of an event: what became of it, down the graph."""

import re
from http import HTTPStatus

from tests.integration.cli.conftest import Cli, cli, printed
from tests.integration.cli.history import DAILY
from tests.integration.web.conftest import Site, page
from tidegate.schemas.queries import datasets

__all__ = ["cli", "printed"]

CONSUMERS = """
from tidegate import Dag, Dataset
with Dag("monthly", schedule=Dataset("lake://delays")) as dag: dag.empty("sum", outlets=[Dataset("lake://months")])
with Dag("paused", schedule=Dataset("lake://delays")) as dag: dag.empty("a")
"""


async def with_a_chain(site: Site, daily: str = DAILY) -> int:
    """Events that started a run, whose outlet started a run of another DAG. Returns the number of the first event."""
    history = site.history
    await history.file(daily)
    await history.file(CONSUMERS, "consumers.py")
    await history.database.run(lambda db: db.execute("UPDATE dag SET is_paused = true WHERE dag_id = 'paused'"))
    await history.run()
    await history.worked()
    await history.worked()
    await history.relayed()
    return (await history.database.run(datasets.events, "lake://flights", None, 1))[0].number


async def test_an_event_leads_down_to_all_that_followed_from_it(site: Site, cli: Cli) -> None:
    number = await with_a_chain(site)

    text = await page(site, f"/events/{number}")
    printed = (await cli("datasets", "event", str(number))).out
    life = (await cli("datasets", "event", str(number), "--json")).json

    assert re.findall(r"</span> (consumed|discarded|success)</span>", text) == [
        *("consumed", "success"),
        *("consumed", "success", "discarded"),
    ]
    assert "the DAG was paused" in text
    assert [word in text for word in ("lake://delays", "by report", "lake://months", "by sum")] == [True] * 4
    assert re.findall(r"event \d+  (\S+)", printed) == ["lake://delays", "lake://months"]
    assert life["reached"][0]["events"][0]["event"]["uri"] == "lake://delays"


async def test_the_pages_of_its_dataset_and_of_its_runs_lead_to_an_event(site: Site) -> None:
    number = await with_a_chain(site)
    (run,) = re.findall(r'href="(/dags/daily_delays/runs/[^"/]+)"', await page(site, f"/events/{number}"))

    texts = [await page(site, "/dataset", uri="lake://flights"), await page(site, run)]
    (made,) = re.findall(r'href="(/events/\d+)">event</a> of <a [^>]*><code>lake://delays', texts[1])

    assert all(f"/events/{number}" in text for text in texts)
    assert "report</a>" in await page(site, made)


async def test_an_event_for_no_dag_says_so(site: Site, cli: Cli) -> None:
    await site.history.updated("lake://alone")
    number = (await site.history.database.run(datasets.events, "lake://alone", None, 1))[0].number

    assert "No DAG was subscribed when it came" in await page(site, f"/events/{number}")
    assert "no DAG was subscribed when it came" in (await cli("datasets", "event", str(number))).out


async def test_an_unknown_event_is_a_page_that_says_so(site: Site, cli: Cli) -> None:
    async with site.browser() as client:
        answers = [await client.get(path) for path in ("/events/999", "/events/x", "/events/99999999999999999999")]

    assert [answer.status_code for answer in answers] == [HTTPStatus.NOT_FOUND, *[HTTPStatus.BAD_REQUEST] * 2]
    assert "there is no event 999" in answers[0].text
    assert "there is no event 999" in (await cli("datasets", "event", "999")).err


async def test_names_of_users_are_no_html(site: Site) -> None:
    hostile = "lake://<script>alert(1)</script>"
    await site.history.file(DAILY.replace("lake://flights", hostile))
    await site.history.updated(hostile, hostile, {hostile: hostile})
    number = (await site.history.database.run(datasets.events, hostile, None, 1))[0].number

    text = await page(site, f"/events/{number}")

    assert "<script>alert" not in text
    assert text.count("alert(1)") >= 4
