"""The page of DAGs."""

from http import HTTPStatus

from tests.integration.web.conftest import Site

NAMED = 'from tidegate import Dag\nwith Dag("{id}", description="<script>alert(1)</script>") as dag:\n    dag.empty("done")\n'


async def test_without_dags_it_shows_the_steps_to_a_first_one(site: Site) -> None:
    async with site.browser() as client:
        page = await client.get("/dags")

    assert page.status_code == HTTPStatus.OK
    assert "tidegate runs trigger first --wait" in page.text


async def test_a_dag_has_its_state_with_the_reason_and_its_last_runs(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    async with site.browser() as client:
        page = (await client.get("/dags")).text
    assert "daily_delays" in page
    assert "lake://flights &amp; lake://weather" in page
    assert ': running"' in page


async def test_a_broken_file_is_the_reason(site: Site) -> None:
    await site.history.file()
    await site.history.broken_file("daily.py", "SyntaxError: <b>no</b>", 3)
    async with site.browser() as client:
        page = (await client.get("/dags")).text

    assert "its file is broken: SyntaxError: &lt;b&gt;no&lt;/b&gt;" in page


async def test_a_search_without_a_hit_says_so(site: Site) -> None:
    await site.history.file()
    async with site.browser() as client:
        page = (await client.get("/dags", params={"search": "<img src=x>"})).text

    assert "No DAG has" in page
    assert "<img" not in page


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
