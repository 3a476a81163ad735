"""The pages and forms of backfills."""

import re
from http import HTTPStatus

import httpx
import pytest

from tests.integration.cli.test_backfills import DAILY
from tests.integration.web.conftest import Site, csrf_of
from tidegate.daemon.permissions import Role
from tidegate.schemas.queries import backfill_pages, run_pages
from tidegate.schemas.queries.backfill_pages import BackfillRow

IN_ORDER = DAILY.replace("daily", "reverse_etl").replace('["true"])', '["true"], depends_on_past=True)')
ANY_KEY = DAILY.replace("params=", "extra_params=True, params=")

JANUARY = {"dag": "daily", "start": "2013-01-01", "end": "2013-01-06"}


async def send(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    """Open the form, and send its hidden fields with its CSRF token."""
    page = await client.get(path)
    assert page.status_code == HTTPStatus.OK, page.text
    hidden = {name: httpx_text(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text)}
    return await client.post(path, data={**hidden, "csrf": csrf_of(page), **fields})


def httpx_text(value: str) -> str:
    return value.replace("&#34;", '"').replace("&amp;", "&")


def beside(label: str, text: str) -> str:
    """A field of a form, with what stands beside it."""
    found = re.search(rf"<label[^<>]*>(?:<input[^<>]*> )?{label}\n.*?</label>", text, re.DOTALL)
    assert found is not None, text
    return found[0]


async def created(site: Site, client: httpx.AsyncClient, source: str = DAILY, **fields: str) -> BackfillRow:
    """A backfill of six days, whose first runs have begun."""
    await site.history.file(source)
    page = await client.post("/backfills/new", data={**JANUARY, "csrf": csrf_of(await client.get("/")), **fields})
    assert page.status_code == HTTPStatus.OK, page.text
    await site.history.backfilled()
    return await newest(site)


async def newest(site: Site) -> BackfillRow:
    return (await site.history.database.run(backfill_pages.list_backfills, deleted=True))[0]


async def failed_first_date(site: Site) -> None:
    """The first date of the backfill has failed."""
    (claimed,) = await site.history.attempts_begin()
    await site.history.attempt_ends(claimed.submission_id, "failed", reason="OSError: <the disk> is full")
    await site.history.backfilled()


async def test_a_form_shows_each_date_before_it_creates(site: Site) -> None:
    await site.history.file(DAILY)
    async with site.browser(Role.EDITOR) as client:
        blank = (await client.get("/backfills/new", params={"dag": "daily"})).text
        preview = await client.get("/backfills/new", params={**JANUARY, "max_active_runs": "2", "conf": '{"n": 3}'})
        fields = {**JANUARY, "max_active_runs": "2", "conf": '{"n": 3}', "share": "25"}
        page = await client.post("/backfills/new", data={"csrf": csrf_of(preview), **fields})

    row = await newest(site)
    assert "Create the backfill" not in blank
    assert ("Write the first and the last date" in blank, "write a date" in blank) == (True, False)
    assert preview.text.count(">gets a run</td>") == 6
    assert "6 dates: 6 get a run. Nothing has changed yet." in preview.text
    assert (page.url.path, row.max_active_runs, row.share, row.dag_params) == ("/backfills/1", 2, 0.25, {"n": 3})


@pytest.mark.parametrize(
    ("fields", "label", "says"),
    [
        ({"dag": "none"}, "DAG", "there is no DAG"),
        ({"start": "yesterday"}, "First date", "write a date or a time like"),
        ({"end": "2012-01-01"}, "Last date", "the last date is before the first one"),
        ({"start": "2150-01-01", "end": "2150-01-02"}, "First date", "has no date from"),
        ({"dates": "2013-01-01"}, "Or a list of dates", "give either"),
        ({"conf": "3"}, "Conf", "write a JSON object"),
        ({"conf": '{"n": "x"}'}, "Conf", "the conf does not fit"),
        ({"conf": '{"nn": 1}'}, "Conf", "there is no param"),
        ({"outlets": "cascade"}, "Existing runs that run again", "a cascade follows runs that run again"),
        ({"max_active_runs": "0"}, "Active runs at most", "from 1 to 1000"),
        ({"share": "200"}, "Share of a pool, percent", "above 0 and up to 100"),
        ({"share": "half"}, "Share of a pool, percent", "write a percentage"),
        (
            {"pool": "none"},
            "Pool",
            'there is no pool &#39;none&#39;; <a href="/queue/slots?name=none">Set the slots of none…</a> makes it',
        ),
        ({"description": "x" * 1001}, "Description", "at most 1000 characters"),
        ({"dag": "reverse_etl", "reprocess": "failed", "is_reverse": "true"}, "begin with the newest date", "in reverse order"),
        ({"dag": "reverse_etl"}, "Existing runs that run again", "depend on the previous run"),
    ],
)
async def test_a_rejection_stands_beside_its_field(site: Site, fields: dict[str, str], label: str, says: str) -> None:
    await site.history.file(DAILY)
    await site.history.file(IN_ORDER, "reverse_etl.py")
    async with site.browser() as client:
        page = await client.get("/backfills/new", params={**JANUARY, **fields})

    assert says in beside(label, page.text)
    assert "Create the backfill" not in page.text


async def test_all_wrong_fields_are_named_at_once(site: Site) -> None:
    await site.history.file(DAILY)
    async with site.browser() as client:
        page = (await client.get("/backfills/new", params={**JANUARY, "dag": "daliy", "end": "soon"})).text

    assert "there is no DAG" in beside("DAG", page)
    assert 'aria-label="Last date" aria-describedby="end-problem end-hint" aria-invalid="true" name="end" value="soon"' in page
    assert "write a date or a time like" in beside("Last date", page)
    assert "<h1>New backfill</h1>" in page
    assert '<datalist id="dag-list"><option value="daily"></option></datalist>' in page


async def test_wrong_fields_create_nothing(site: Site) -> None:
    await site.history.file(DAILY)
    async with site.browser() as client:
        csrf = csrf_of(await client.get("/"))
        page = await client.post("/backfills/new", data={"csrf": csrf, "dag": "daily", "share": "x"})

    assert page.status_code == HTTPStatus.BAD_REQUEST
    assert "write a date, or list dates" in beside("First date", page.text)
    assert 'name="share" value="x"' in page.text
    assert await site.history.database.run(backfill_pages.list_backfills) == []


async def test_the_list_shows_progress_and_reasons(site: Site) -> None:
    async with site.browser() as client:
        empty = (await client.get("/backfills")).text
        await created(site, client, max_active_runs="1", description="new prices")
        text = (await client.get("/backfills")).text
        none = (await client.get("/backfills", params={"state": "failed", "dag": "daily"})).text

    assert "No backfill was created yet" in empty
    assert "1 · daily" in text
    assert "new prices" in text
    assert "its limit of 1 active run is reached" in text
    assert "0% of tasks, 0 of 6 runs" in text
    assert "There is no such backfill of the DAG" in none


async def test_the_list_has_pages(site: Site) -> None:
    async with site.browser() as client:
        await created(site, client)
        await created(site, client, start="2014-01-01", end="2014-01-02")
        first = (await client.get("/backfills", params={"limit": "1"})).text
        second = (await client.get(re.findall(r'href="(/backfills\?cursor[^"]*)"', first)[0].replace("&amp;", "&"))).text

    assert ("2 · daily" in first, "1 · daily" in first) == (True, False)
    assert ("2 · daily" in second, "1 · daily" in second) == (False, True)


async def test_a_backfill_shows_its_failures_first_and_its_days(site: Site) -> None:
    async with site.browser() as client:
        await created(site, client, max_active_runs="1")
        idle = (await client.get("/backfills/1")).text
        await failed_first_date(site)
        await site.history.attempts_begin()
        alone = (await client.get("/backfills/1")).text
        await site.history.file()
        await site.history.run()
        text = (await client.get("/backfills/1")).text
        of_day = (await client.get("/backfills/1", params={"day": "2013-01-01"})).text
        open_ones = (await client.get("/backfills/1", params={"state": "open", "rows": "1"})).text
        other_year = (await client.get("/backfills/1", params={"year": "2020"})).text

    assert text.index("What failed") < text.index("Calendar of 2013") < text.index("<h2>Dates</h2>")
    assert "OSError: &lt;the disk&gt; is full" in text
    assert "<title>2013-01-01: 1 failed</title>" in text
    assert "<title>2013-01-06: no date is planned</title>" in text
    assert len(re.findall(r'<td class="num" data-title="No.">1</td>\s*<td class="nowrap"[^>]*>2013-01-01', of_day)) == 1
    assert '<td class="nowrap" data-title="Logical date">2013-01-02' not in of_day
    assert '<td class="nowrap" data-title="Logical date">2013-01-02' in open_ones
    assert 'href="/backfills/1?state=failed&amp;rows=1#dates"' in open_ones
    assert "The backfill has no date in 2020" in other_year
    assert "None of its tasks holds a slot." in idle
    assert "It holds 1 of 128 slots of default_pool; no other task waits there." in alone
    assert "It holds 1 of 128 slots of default_pool; 1 task of another run waits there." in text
    assert ("leave more slots to others" in alone, "leave more slots to others" in text) == (False, True)


async def test_it_is_paused_and_resumed(site: Site) -> None:
    async with site.browser(Role.EDITOR) as client, site.browser(Role.EDITOR, user="ben", dags=("other_*",)) as other:
        await created(site, client, max_active_runs="2")
        preview = (await client.get("/backfills/1/pause")).text
        paused = await send(client, "/backfills/1/pause")
        twice = (await client.get("/backfills/1/pause")).text
        seen = [(await other.get(path)).text for path in ("/backfills", "/backfills/1")]
        resumed = await send(client, "/backfills/1/resume")

    assert "It starts no more runs. 2 running runs go on" in preview
    assert "2013-01-02" in preview
    assert "paused</span>" in paused.text
    assert '<a href="/backfills/1/resume">Resume backfill 1…</a> resumes it' in paused.text
    assert "`tidegate" not in paused.text
    assert ["<code>tidegate backfills resume 1</code> resumes it" in text for text in seen] == [True, True]
    assert "backfill 1 is paused: it cannot be paused." in twice
    assert "running</span>" in resumed.text


async def test_its_limits_change_while_it_runs(site: Site) -> None:
    async with site.browser() as client:
        await created(site, client, max_active_runs="1")
        page = await send(client, "/backfills/1/change", max_active_runs="3", share="50", end="2013-01-08", priority="-1000000")
        wrong = await send(client, "/backfills/1/change", max_active_runs="many")
        pool = await send(client, "/backfills/1/change", pool="none", share="20", max_active_runs="3")
        early = await send(client, "/backfills/1/change", end="2013-01-02", max_active_runs="3")
        unreadable = await client.post("/backfills/1/change", data={"csrf": csrf_of(page), "shown": "{"})

    row = await newest(site)
    assert (row.max_active_runs, row.share, row.end_date.day, row.max_failed_runs) == (3, 0.5, 8, 0)
    assert (wrong.status_code, pool.status_code, early.status_code) == (400, 409, 409)
    assert 'name="max_active_runs" value="many"' in wrong.text
    assert "write a whole number from 1 to 1000" in beside("Active runs at most", wrong.text)
    assert 'name="share" value="20"' in pool.text
    assert "There is no pool" in beside("Pool", pool.text)
    assert "ends at 2013-01-08 23:59:59Z already" in beside("Last date", early.text)
    assert "it is not of this form" in unreadable.text


async def test_a_change_leaves_what_another_user_changed(site: Site) -> None:
    async with site.browser() as client:
        await created(site, client, max_active_runs="1")
        page = await client.get("/backfills/1/change")
        await send(client, "/backfills/1/change", max_active_runs="4", priority="-1000000", max_failed_runs="0", end="2013-01-06")
        shown = httpx_text(re.findall(r'name="shown" value="([^"]*)"', page.text)[0])
        data = {"csrf": csrf_of(page), "shown": shown, "max_active_runs": "1", "priority": "5", "max_failed_runs": "0"}
        await client.post("/backfills/1/change", data=data)

    row = await newest(site)
    assert (row.max_active_runs, row.priority) == (4, 5)


@pytest.mark.parametrize(("kills", "left"), [("", ["running"]), ("true", ["failed"])])
async def test_it_is_cancelled_and_deleted(site: Site, kills: str, left: list[str]) -> None:
    async with site.browser() as client:
        await created(site, client, max_active_runs="1")
        preview = (await client.get("/backfills/1/cancel")).text
        early = (await client.get("/backfills/1/delete")).text
        await send(client, "/backfills/1/cancel", **({"kills": kills} if kills else {}))
        await site.history.backfilled()
        states = [run.state for run in await site.history.database.run(run_pages.list_runs, limit=10)]
        again = (await client.get("/backfills/1/cancel")).text
        listed = (await client.get("/backfills")).text
        if kills:
            page = await send(client, "/backfills/1/delete")
            assert page.url.path == "/backfills"

    assert "1 run is running" in preview
    assert "2013-01-01" in preview
    assert "it cannot be deleted." in early
    assert states == left
    assert ("it cannot be cancelled" in again) == bool(kills)
    assert ("% of tasks" not in listed) == bool(kills)
    assert (await newest(site)).deleted == bool(kills)


async def test_failed_dates_run_again(site: Site) -> None:
    async with site.browser() as client:
        await created(site, client, max_active_runs="1")
        await failed_first_date(site)
        await site.history.file(DAILY.replace("second", "third"))
        preview = (await client.get("/backfills/1/retry")).text
        await send(client, "/backfills/1/retry", newest_version="true")

    assert "1 failed date runs again" in preview
    assert "The runs have version 1 of daily; the newest is version 2." in preview
    assert "by version 2, the newest of the DAG" in preview
    assert "2013-01-01" in preview
    assert ((await newest(site)).failed, (await newest(site)).version) == (0, 2)


@pytest.mark.parametrize("path", ["/backfills/7", "/backfills/7/pause", "/backfills/7/change"])
async def test_an_unknown_backfill_is_a_page_that_says_so(site: Site, path: str) -> None:
    async with site.browser() as client:
        page = await client.get(path)

    assert page.status_code == HTTPStatus.NOT_FOUND
    assert "there is no backfill 7" in page.text


@pytest.mark.parametrize("path", ["/backfills/1/cancel", "/backfills/1/change", "/backfills/new"])
async def test_a_token_for_other_dags_changes_nothing(site: Site, path: str) -> None:
    async with site.browser() as admin, site.browser(Role.EDITOR, dags=("other_*",)) as client:
        await created(site, admin)
        shown = await client.get(path, params=JANUARY if path.endswith("new") else {})
        done = await client.post(path, data={"csrf": csrf_of(await client.get("/")), **(JANUARY if path.endswith("new") else {})})

    assert (shown.status_code, done.status_code) == (HTTPStatus.FORBIDDEN, HTTPStatus.FORBIDDEN)
    assert (await newest(site)).state == "running"
    assert len(await site.history.database.run(backfill_pages.list_backfills, limit=9)) == 1


async def test_names_of_users_are_no_html(site: Site) -> None:
    hostile = "<script>alert(1)</script>"
    async with site.browser() as client:
        await created(site, client, ANY_KEY, description=hostile, conf='{"n": 3, "note": "<script>alert(1)</script>"}')
        paths = ("/backfills", "/backfills/1", "/backfills?dag=<script>alert(1)</script>", "/backfills/1/cancel")
        texts = [(await client.get(path)).text for path in paths]
        texts += [
            (await client.get("/backfills/new", params={**JANUARY, name: hostile})).text for name in ("dag", "start", "pool")
        ]

    assert all(hostile not in text for text in texts)
    assert all("alert(1)" in text for text in (*texts[:3], *texts[4:]))


async def test_the_form_lets_the_first_date_wait_for_no_run_before_it(site: Site) -> None:
    await site.history.file(IN_ORDER, "reverse_etl.py")
    asked = {**JANUARY, "dag": "reverse_etl", "reprocess": "failed", "ignore_first_depends_on_past": "true"}
    async with site.browser() as client:
        preview = await client.get("/backfills/new", params=asked)
        await client.post("/backfills/new", data={"csrf": csrf_of(preview), **asked})

    assert preview.text.count("its tasks do not wait for the run before it") == 1
    assert await site.history.database.pool.fetchval("SELECT ignore_first_depends_on_past FROM backfill")


async def test_the_calendar_has_the_days_of_the_zone_of_the_dag(site: Site) -> None:
    """The midnights there are at 11:00 in UTC of the day before."""
    zoned = DAILY.replace('cron("0 6 * * *")', 'cron("0 0 * * *", timezone="Pacific/Auckland")')
    async with site.browser() as client:
        row = await created(site, client, zoned, start="2013-01-01T00:00+13:00", end="2013-01-06T00:00+13:00")
        text = (await client.get(f"/backfills/{row.id}", params={"year": "2013"})).text
        of_day = (await client.get(f"/backfills/{row.id}", params={"day": "2013-01-02"})).text

    assert re.findall(r"day=2013-01-(\d\d)#dates", text)[0] == "01"
    assert "in Pacific/Auckland" in text
    assert re.findall(r'data-title="Logical date">([^<]*)<', of_day)[0] == "2013-01-01 11:00:00Z"
