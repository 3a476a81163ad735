"""The list of datasets, and one dataset."""

import re
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import pytest

from tests.integration.cli.history import DAILY
from tests.integration.web.conftest import Site, page
from tidegate.daemon.web.pages import datasets

MANY_CONSUMERS = """
from tidegate import Dag, Dataset
for number in range(12):
    with Dag(f"d{number:02}", schedule=Dataset("lake://a")) as dag:
        dag.empty("done")
"""


async def test_the_list_says_what_would_fill_it(site: Site) -> None:
    assert "There is no dataset yet" in await page(site, "/datasets")
    assert "No dataset has <code>x</code>" in await page(site, "/datasets", search="x")


async def test_the_list_shows_last_updates_intervals_and_pending_events(site: Site) -> None:
    await site.history.file()
    await site.history.hourly("lake://flights")

    text = await page(site, "/datasets")
    first = await page(site, "/datasets", limit="1")
    second = await page(site, re.findall(r'href="(/datasets\?cursor[^"]*)"', first)[0].replace("&amp;", "&"))

    (line,) = re.findall(r"<tr>\s*<th[^>]*>.{0,80}lake://flights</a>.*?</tr>", text.replace("lake%3A%2F%2F", ""), re.DOTALL)
    assert ("2026-01-01" in line, "s ago" in line) == (False, True)
    assert '<td data-title="Usually every">1h00m</td>' in line
    assert re.findall(r'num"[^>]*>(\d+)', line) == ["0", "1", "26"]
    assert ("lake://delays<" in first, "lake://flights<" in first, "lake://flights<" in second) == (True, False, True)


async def test_the_last_update_is_not_in_the_future(site: Site) -> None:
    await site.history.updated("lake://flights", occurred_at=datetime(2100, 1, 1, tzinfo=UTC))

    assert "2100-01-01" not in await page(site, "/datasets")


async def test_a_dataset_shows_what_became_of_each_event(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    await site.history.updated("lake://flights", "f-2")

    text = await page(site, "/dataset", uri="lake://flights")
    older = await page(
        site,
        re.findall(r'href="(/dataset\?[^"]*cursor[^"]*)"', await page(site, "/dataset", uri="lake://flights", limit="1"))[
            0
        ].replace("&amp;", "&"),
    )
    produced = await page(site, "/dataset", uri="lake://delays")

    assert re.findall(r"</span> (consumed|pending)</span>", text) == ["pending", "consumed"]
    assert ("f-1" in older, "f-2" in older) == (True, False)
    assert "No task has it as an outlet" in text
    assert '<span class="why">report</span>' in produced
    assert "No event of it has come yet" in produced
    assert "There is no such event" in await page(site, "/dataset", uri="lake://flights", event_id="none")


async def test_an_event_of_many_consumers_shows_the_first_of_them(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.history.file(MANY_CONSUMERS)
    await site.history.updated("lake://a", "1")

    text = await page(site, "/dataset", uri="lake://a")
    monkeypatch.setattr(datasets, "SHOWN", 11)
    cut = await page(site, "/dataset", uri="lake://a")

    assert ("by their ids" in text, "The first 11, by their ids." in cut) == (False, True)
    events = text[text.index("Events, newest first") :]
    assert re.findall(r">(d\d\d)</a>", events) == [f"d{n:02}" for n in range(10)]
    assert re.search(r'<a href="/events/\d+">and 2 more</a>', events)


async def test_a_dataset_says_when_it_may_come_and_what_that_waits_for(site: Site) -> None:
    await site.history.file()
    await site.history.updated("lake://weather", "w-0")
    waiting = await page(site, "/dataset", uri="lake://delays")
    await site.history.updated("lake://flights", "f-0")
    running = await page(site, "/dataset", uri="lake://delays")
    for _ in range(2):
        (attempt,) = await site.history.attempts_begin()
        await site.history.attempt_ends(attempt.submission_id, "failed", "it broke")
        await site.history.retried(attempt.dag_run_id, attempt.task_index)
    failed = await page(site, "/dataset", uri="lake://delays")
    of_the_dag = await page(site, "/dags/daily_delays")

    flights = '<a href="/dataset?uri=lake%3A%2F%2Fflights">lake://flights</a>'
    assert "it has no run yet" in waiting
    assert "no event is pending of lake://flights" in waiting
    assert (flights in waiting, flights in running) == (True, False)
    assert '">its run</a>' in running
    assert '">its last run</a>' in failed
    assert (flights in failed, flights in of_the_dag) == (True, True)


CHAIN = """
from tidegate import Dag, Dataset, cron
names = ["fx", "report", "board"]
for name, outlet in zip(names, names[1:]):
    with Dag(f"make_{outlet}", schedule=Dataset(f"lake://{name}") & Dataset("lake://stock")) as dag:
        dag.command("a", ["true"], outlets=[Dataset(f"lake://{outlet}")])
with Dag("make_stock", schedule=cron("0 6 * * *"), run_immediately=False) as dag:
    dag.command("a", ["true"], outlets=[Dataset("lake://stock")])
"""


async def test_the_last_cause_of_a_chain_is_on_the_first_page(site: Site) -> None:
    await site.history.file(CHAIN, "chain.py")
    await site.history.hourly("lake://fx")
    await site.history.database.pool.execute("UPDATE dataset_event SET received_at = now() - interval '121 min'")
    await site.history.database.pool.execute("DELETE FROM dataset_dag_run_queue")

    text, of_the_dag = await page(site, "/dataset", uri="lake://board"), await page(site, "/dags/make_board")
    listed, of_fx = await page(site, "/datasets"), await page(site, "/dataset", uri="lake://fx")

    for found in (text, of_the_dag):
        end = " ".join(re.sub(r"<[^>]+>", " ", found.split("In the end that waits for")[1].split("</ul>")[0]).split())
        assert re.search(
            r"lake://fx : the last event came 2h\d\dm ago , usually every 1h00m ✕ late ; its events come from other", end
        )
        assert "lake://stock : no event has come yet; make_stock starts in " in end
        assert "lake://report" not in end
    assert [len(re.findall("</span> late</span>", found)) for found in (listed, of_fx)] == [1, 1]


async def test_a_dataset_of_a_timed_dag_says_when_its_next_run_starts(site: Site) -> None:
    timed = 'from tidegate import Dag, Dataset, cron\nwith Dag("t", schedule=cron("0 6 * * *"), run_immediately=False) as dag:\n'
    await site.history.file(f'{timed}    dag.command("a", ["true"], outlets=[Dataset("lake://t")])\n', "t.py")

    assert "the next one starts" in await page(site, "/dataset", uri="lake://t")


async def test_an_unknown_dataset_is_a_page_that_says_so(site: Site) -> None:
    async with site.browser() as client:
        answer = await client.get("/dataset", params={"uri": "lake://none"})

    assert answer.status_code == HTTPStatus.NOT_FOUND
    assert "there is no dataset" in answer.text


async def test_names_of_users_are_no_html(site: Site) -> None:
    hostile = "lake://<script>alert(1)</script>"
    await site.history.file(DAILY.replace("lake://flights", hostile))
    await site.history.updated(hostile, hostile, {"note": hostile})

    texts = [
        await page(site, "/datasets"),
        await page(site, "/dataset", uri=hostile),
        await page(site, "/datasets", search=hostile),
    ]

    assert all("<script>alert" not in text for text in texts)
    assert all("alert(1)" in text for text in texts)


async def test_a_dataset_says_which_fields_of_its_events_are_ignored(site: Site) -> None:
    await site.history.updated("lake://flights")
    sql = "INSERT INTO ignored_field SELECT id, 'extras', now(), now() - $1::interval FROM dataset"
    await site.history.database.pool.execute(sql, timedelta(days=6))

    text = await page(site, "/dataset", uri="lake://flights")
    await site.history.database.pool.execute("UPDATE ignored_field SET last_at = now() - interval '8 days'")

    assert "its events have fields that are ignored: extras; what runs are to read belongs into extra" in text
    assert "are ignored" not in await page(site, "/dataset", uri="lake://flights")
