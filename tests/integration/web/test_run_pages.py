"""The pages of a DAG, a run and a task."""

from datetime import UTC, datetime
from http import HTTPStatus

import pytest

from tests.integration.cli.history import DAILY, HOST
from tests.integration.web.conftest import MakeSite, Site
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.queries import run_pages

TIMED = """
from datetime import UTC, datetime
from tidegate import Dag

with Dag("timed", schedule="0 0 * * *", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=True, max_active_runs=16) as dag:
    dag.empty("first") >> dag.empty("second")
"""


async def run_path(site: Site) -> str:
    run = (await site.history.database.run(run_pages.list_runs, dag_id="daily_delays", limit=1))[0]
    return f"/dags/daily_delays/runs/{run.run_id}"


async def page(site: Site, path: str, **params: str) -> str:
    async with site.browser() as client:
        answer = await client.get(path, params=params or None)
    assert answer.status_code == HTTPStatus.OK, answer.text
    return answer.text


async def test_a_dag_says_why_it_has_no_run(site: Site) -> None:
    await site.history.file()
    await site.history.updated("lake://flights")

    text = await page(site, "/dags/daily_delays")

    assert "no event is pending of lake://weather" in text
    assert "✓ lake://flights" in text
    assert "tidegate datasets publish lake://weather" in text
    assert "There is no run yet" in text


async def test_attempts_and_events_link_to_the_systems_of_the_settings(make_site: MakeSite) -> None:
    templates = {"spark_ui_url": "https://spark.example/{submission_id}", "producer_url": "https://jobs.example/{source}/{id}"}
    async with make_site(**templates) as site:
        await site.history.file()
        await site.history.run()
        (attempt,) = await site.history.attempts_begin()
        run, task = [await page(site, f"{await run_path(site)}{below}") for below in ("", "/tasks/join")]

    assert f'href="https://spark.example/{attempt.submission_id}"' in task
    assert 'href="https://jobs.example/importer/f-1"' in run


async def test_a_held_dag_is_shown_with_its_hold(site: Site) -> None:
    await site.history.file()
    await site.history.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'it broke'")
    await site.history.database.pool.execute("UPDATE dag_version SET spec = '{}'")

    text = await page(site, "/dags/daily_delays")

    assert "it broke" in text
    assert "its version is not read" in text


async def test_the_grid_has_a_window_on_runs(site: Site) -> None:
    await site.history.file(TIMED, "timed.py")
    for day in range(1, 7):
        at = datetime(2026, 1, day, tzinfo=UTC)
        await site.history.database.pool.execute(
            "INSERT INTO dag_run (dag_id, run_id, run_type, state, version_id, run_after, logical_date, state_seq, unfinished)"
            " SELECT 'timed', 'day_' || $1::integer, 'scheduled', 'success', version_id, $2, $2, 1, 0 FROM dag",
            day,
            at,
        )
    newest = await page(site, "/dags/timed", runs="2")
    older = await page(site, newest.split('rel="prev" href="')[1].split('"')[0].replace("&amp;", "&"))
    newer = await page(site, older.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&"))
    by_date = await page(site, "/dags/timed", runs="2", at="2026-01-02")

    assert [days_of(text) for text in (newest, older, newer, by_date)] == [[5, 6], [3, 4], [5, 6], [1, 2]]


def days_of(text: str) -> list[int]:
    return [day for day in range(1, 7) if f'title="day_{day}: success' in text]


async def test_the_grid_has_a_window_on_tasks(site: Site) -> None:
    await site.history.file()
    await site.history.run()

    text = await page(site, "/dags/daily_delays", tasks="1", rows="1")

    assert 'scope="row">report<' in text
    assert 'scope="row">join<' not in text
    assert "tasks 2 to 2 of 3" in text


async def test_a_failed_run_shows_the_error_first(site: Site) -> None:
    await site.history.file(DAILY.replace("retries=1", "retries=0"))
    await site.history.run()
    (claimed,) = await site.history.attempts_begin()
    log = LogExcerpt(host="worker-1", path="/spool/1/log", tail="writing <42> rows\nOSError: it is full")
    await site.history.attempt_ends(claimed.submission_id, "failed", reason="OSError: <the disk> is full", log=log)

    text = await page(site, await run_path(site))

    assert "OSError: &lt;the disk&gt; is full" in text
    assert "join failed" in text
    assert "writing &lt;42&gt; rows\nOSError: it is full</pre>" in text
    assert "the end of its log, /spool/1/log on worker-1" in text
    assert text.index("What failed") < text.index("<h2>Tasks</h2>")


async def test_a_task_that_waits_says_for_what(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    await site.history.attempts_begin()
    await site.history.daemon()

    text = await page(site, await run_path(site))
    of_task = await page(site, f"{await run_path(site)}/tasks/report")

    assert "at work" in text
    assert "join" in of_task
    assert "Why does it not run?" in of_task


async def test_a_task_shows_its_attempts_and_why_there_is_no_log(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    (attempt,) = await site.history.attempts_begin()
    log = LogExcerpt(host=HOST, path="/spool/1/log", tail="the last <line>")
    await site.history.attempt_ends(attempt.submission_id, "failed", "it broke", log=log)

    text = await page(site, f"{await run_path(site)}/tasks/join")

    assert "Log of try 1" in text
    assert "is not on this host below" in text
    assert f"it ran on {HOST}; there," in text
    assert "join --try 1` prints it, from /spool/1/log" in text
    assert "the last &lt;line&gt;</pre>" in text


@pytest.mark.parametrize(
    "path", ["/dags/none", "/dags/daily_delays/runs/none", "/dags/daily_delays/runs/latest/tasks/none", "/dags/none/trigger"]
)
async def test_what_does_not_exist_is_a_page_that_says_so(site: Site, path: str) -> None:
    await site.history.file()
    await site.history.run()
    async with site.browser() as client:
        answer = await client.get(path)

    assert answer.status_code == HTTPStatus.NOT_FOUND
    assert "has no task" in answer.text or "there is no" in answer.text or "has no run" in answer.text


async def test_names_of_users_are_no_html(site: Site) -> None:
    hostile = "<script>alert(1)</script>"
    await site.history.file(DAILY.replace("Delays of a day", hostile).replace('"example"', f'"{hostile}"'))
    await site.history.updated("lake://flights", hostile, {"note": hostile})
    await site.history.updated("lake://weather", "w")

    texts = [await page(site, path) for path in ("/dags/daily_delays", await run_path(site))]

    assert all(hostile not in text for text in texts)
    assert "alert(1)" in texts[1]


async def test_a_version_shows_its_code_and_what_it_changed(site: Site) -> None:
    await site.history.file()
    await site.history.file(DAILY.replace("retries=1", "retries=2"))

    first = await page(site, "/dags/daily_delays/versions/1")
    second = await page(site, "/dags/daily_delays/versions/2")

    assert "It is the first version." in first
    assert "task join: retries 1 → 2" in second
    assert "+    join = dag.command" in second
    async with site.browser() as client:
        assert (await client.get("/dags/daily_delays/versions/3")).status_code == HTTPStatus.NOT_FOUND
        assert (await client.get("/dags/daily_delays/versions/x")).status_code == HTTPStatus.BAD_REQUEST
