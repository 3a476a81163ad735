"""The page of DAGs."""

import re
from http import HTTPStatus

import pytest

from tests.integration.cli.conftest import Cli, cli, printed
from tests.integration.web.conftest import Site, page

__all__ = ["cli", "printed"]

NAMED = 'from tidegate import Dag\nwith Dag("{id}", description="<script>alert(1)</script>") as dag:\n    dag.empty("done")\n'


async def test_without_dags_it_shows_the_steps_to_a_first_one(site: Site) -> None:
    async with site.browser() as client:
        answer = await client.get("/dags")

    assert answer.status_code == HTTPStatus.OK
    assert "tidegate runs trigger first --wait" in answer.text


async def test_a_dag_has_its_state_with_the_reason_and_its_last_runs(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    async with site.browser() as client:
        text = (await client.get("/dags")).text
    assert "daily_delays" in text
    assert "lake://flights &amp; lake://weather" in text
    assert ': running"' in text


async def test_a_broken_file_is_the_reason(site: Site) -> None:
    await site.history.file()
    await site.history.broken_file("daily.py", "SyntaxError: <b>no</b>", 3)
    async with site.browser() as client:
        text = (await client.get("/dags")).text

    assert "its file is broken: SyntaxError: &lt;b&gt;no&lt;/b&gt;" in text


async def test_a_search_without_a_hit_says_so(site: Site) -> None:
    await site.history.file()
    async with site.browser() as client:
        text = (await client.get("/dags", params={"search": "<img src=x>"})).text

    assert "No DAG has" in text
    assert "<img" not in text


TAGGED = """
from tidegate import Dag
for id_, tags in (("late", ["flights", "a<b"]), ("quiet", ["flights"]), ("bare", [])):
    with Dag(id_, tags=tags) as dag:
        dag.command("work", ["true"])
"""


@pytest.fixture
async def tagged(site: Site) -> Site:
    """`late` failed and ran again, `quiet` is paused, `bare` is held; `broken` has an import error."""
    history = site.history
    await history.file(TAGGED, "tagged.py")
    await history.file(NAMED.format(id="broken"), "broken.py")
    await history.broken_file("broken.py", "no", 1)
    async with site.program() as client:
        for run_id, state in (("a", "success"), ("b", "failed")):
            assert (await client.post("/api/v1/dags/late/runs", json={"run_id": run_id})).is_success
            assert (await client.post(f"/api/v1/dags/late/runs/{run_id}/mark", json={"state": state})).is_success
        assert (await client.patch("/api/v1/dags/quiet", json={"is_paused": True})).is_success
        assert (await client.post("/api/v1/dags/quiet/runs", json={"run_id": "q"})).is_success
    await history.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'no' WHERE dag_id = 'bare'")
    return site


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, {"late", "quiet", "bare", "broken"}),
        ({"tag": "flights"}, {"late", "quiet"}),
        ({"tag": "a<b"}, {"late"}),
        ({"tag": "flight"}, set()),
        ({"state": "active"}, {"late", "broken"}),
        ({"state": "paused"}, {"quiet"}),
        ({"state": "held"}, {"bare"}),
        ({"state": "broken"}, {"broken"}),
        ({"state": "stale"}, set()),
        ({"state": "failed"}, {"late"}),
        ({"state": "success"}, set()),
        ({"state": "queued"}, {"quiet"}),
        ({"state": "failed", "tag": "flights", "search": "LATE"}, {"late"}),
        ({"state": "failed", "search": "quiet"}, set()),
    ],
)
async def test_page_api_and_command_filter_by_tag_and_state(
    tagged: Site, cli: Cli, filters: dict[str, str], found: set[str]
) -> None:
    text = await page(tagged, "/dags", **filters)
    async with tagged.program() as client:
        listed = (await client.get("/api/v1/dags", params=filters)).json()["items"]
    options = [word for name, value in filters.items() if name != "search" for word in (f"--{name}", value)]
    printed = (await cli("dags", "list", "--json", *options)).json

    assert set(re.findall(r'<th scope="row"><a href="/dags/(\w+)"', text)) == found
    assert {row["dag"]["dag_id"] for row in listed} == found
    assert {row["dag_id"] for row in printed} == found or "search" in filters
    assert "<b" not in text.replace("<br", "").replace("<body", "").replace("<button", "")


async def test_tags_are_shown_and_lead_to_their_dags(tagged: Site) -> None:
    text = await page(tagged, "/dags")
    of_tag = await page(tagged, "/dags", tag="none")

    assert '<a class="tag" href="/dags?tag=a%3Cb">a&lt;b</a>' in text
    assert '<a class="tag" href="/dags?tag=flights">flights</a>' in await page(tagged, "/dags/late")
    assert "No DAG has the tag <code>none</code>. " in of_tag
    assert ">last run failed</a>" in text


async def test_a_search_finds_datasets_as_well(site: Site) -> None:
    await site.history.file()
    async with site.browser() as client:
        found = [(await client.get("/dags", params={"search": text})).text for text in ("lake://fl", "lake://", "daily", "")]

    link = '<a class="id" href="/dataset?uri=lake%3A%2F%2Fflights">lake://flights</a>'
    assert [link in text for text in found] == [True, True, False, False]
    assert "No DAG has <code>lake://fl</code>" in found[0]


async def test_an_unknown_page_and_a_wrong_parameter_say_so(site: Site) -> None:
    async with site.browser() as client:
        unknown = await client.get("/nothing/here")
        wrong = await client.get("/dags", params={"limit": "-1"})

    assert (unknown.status_code, wrong.status_code) == (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST)
    assert "there is no such page" in unknown.text
    assert "limit: expected" in wrong.text
