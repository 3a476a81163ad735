"""The pages of a DAG, a run and a task."""

import re
from datetime import UTC, datetime
from html import unescape
from http import HTTPStatus

import pytest

from tests.integration.cli.conftest import Cli, cli, printed
from tests.integration.cli.history import DAILY, HOST
from tests.integration.web.conftest import MakeSite, Site, csrf_of, page
from tidegate.daemon.api.dags import VersionsOf
from tidegate.daemon.api.tasks import TaskList
from tidegate.daemon.gateway.cursor import encode
from tidegate.daemon.gateway.lists import filters_of
from tidegate.daemon.read_model import run_progress
from tidegate.daemon.web.pages import run as run_page
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.queries import run_pages
from tidegate.schemas.state import TaskState

__all__ = ["cli", "printed"]

TIMED = """
from datetime import UTC, datetime, timedelta
from tidegate import Dag, Deadline

with Dag("timed", schedule="0 0 * * *", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=True,
         deadlines=[Deadline("late", after=timedelta(hours=1))], fail_fast=True) as dag:
    dag.empty("first") >> dag.empty("second")
"""


async def run_path(site: Site) -> str:
    run = (await site.history.database.run(run_pages.list_runs, dag_id="daily_delays", limit=1))[0]
    return f"/dags/daily_delays/runs/{run.run_id}"


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
    async with site.browser() as client:
        form = await client.get("/dags/daily_delays/release")
        released = await client.post("/dags/daily_delays/release", data={"csrf": csrf_of(form)})
        again = await client.get("/dags/daily_delays/release")

    assert "it broke" in text
    assert "its version is not read" in text
    assert '<a href="/dags/daily_delays/release">Release daily_delays…</a>' in text
    assert ("It is held: it broke" in form.text, released.url.path) == (True, "/dags/daily_delays")
    assert "is not held: there is nothing to release" in again.text


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
    options = [
        ("start date", "2026-01-01 00:00:00Z"),
        ("catchup", "on: every missed run is started"),
        ("tasks", "of each run at most 16 at a time"),
        ("fail fast", "the first task that fails ends its run"),
        ("deadlines", "late 1h00m after logical_date"),
    ]
    assert "".join(f"<dt>{name}</dt><dd>{words}</dd>" for name, words in options) in newest


def days_of(text: str) -> list[int]:
    return [day for day in range(1, 7) if f'title="day_{day}: success' in text]


async def test_the_grid_has_a_window_on_tasks(site: Site) -> None:
    await site.history.file()
    await site.history.run()

    text = await page(site, "/dags/daily_delays", tasks="1", rows="1", at="2100-01-01")

    assert 'scope="row" title="report">report<' in text
    assert 'scope="row">join<' not in text
    assert "tasks 2 to 2 of 3" in text
    assert re.findall(r'href="(/dags/daily_delays\?[^"]*)">Tasks', unescape(text)) == [
        "/dags/daily_delays?at=2100-01-01&rows=1",
        "/dags/daily_delays?at=2100-01-01&tasks=2&rows=1",
    ]
    hidden = '<input type="hidden" name="tasks" value="1"><input type="hidden" name="rows" value="1">'
    assert f'<form class="row" action="/dags/daily_delays">{hidden}' in text


INSTANCES = """
INSERT INTO task_instance (dag_run_id, task_index, task_id, state)
SELECT run.id, 1048576 + n, 'join', (CASE n WHEN 0 THEN 'success' ELSE 'removed' END)::task_state
FROM dag_run AS run, generate_series(0, 2) AS n
"""


async def test_the_grid_counts_the_instances_that_a_mapped_task_has(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    await site.history.database.pool.execute(INSTANCES)

    assert "1 of 1 instances succeeded" in await page(site, "/dags/daily_delays")


async def test_the_grid_finds_tasks_that_a_run_has_at_other_positions(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    await site.history.file(DAILY.replace("as dag:\n", 'as dag:\n    dag.empty("before")\n'))
    await site.history.updated("lake://flights", "f-2")
    await site.history.updated("lake://weather", "w-2")

    before, join = [await page(site, "/dags/daily_delays", tasks=str(position), rows="1") for position in (0, 1)]

    assert [before.count('/tasks/before" title="before '), join.count('/tasks/join" title="join ')] == [1, 2]


async def test_a_failed_run_shows_the_error_first(site: Site) -> None:
    await site.history.file(DAILY.replace("retries=1", "retries=0"))
    await site.history.run()
    (claimed,) = await site.history.attempts_begin()
    log = LogExcerpt(host="worker-1", path="/spool/1/log", tail="writing <42> rows\nOSError: it is full")
    await site.history.attempt_ends(claimed.submission_id, "failed", reason="OSError: <the disk> is full", log=log)

    path = await run_path(site)
    text, of_dag = await page(site, path), await page(site, "/dags/daily_delays")

    run = r'<a href="/dags/daily_delays/runs/[^"/]+">'
    assert re.search(f"{run}<b>daily_delays</b></a>", await page(site, "/"))
    assert re.search(f"{run}<span[^>]*>.*</span> newest run failed</span></a>", of_dag)
    assert "OSError: &lt;the disk&gt; is full" in text
    assert "join failed" in text
    assert "writing &lt;42&gt; rows\nOSError: it is full</pre>" in text
    assert "the end of its log, /spool/1/log on worker-1" in text
    assert text.index("What failed") < text.index("<h2>Tasks</h2>")


MANY = """
INSERT INTO task_instance (dag_run_id, task_index, task_id, state, end_date)
SELECT run.id, 1000 + n, 'extra_' || n, (CASE WHEN n <= 12 THEN 'failed' ELSE 'success' END)::task_state, now()
FROM dag_run AS run, generate_series(1, 1100) AS n
"""
REMOVED = "UPDATE task_instance SET task_index = -task_index WHERE task_id IN ('extra_11', 'extra_12')"


async def test_the_page_of_a_run_is_bounded_and_leads_to_all_tasks(site: Site, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_page, "MOST_EXPLAINED", 1_102)
    monkeypatch.setattr(run_progress, "MOST_READ", 1_102)
    await site.history.file()
    await site.history.run()
    await site.history.database.pool.execute(MANY)
    path = await run_path(site)

    text = await page(site, path)
    others = await page(site, next_of(text))
    failed = await page(site, path, state="failed", limit="10")
    last = await page(site, next_of(failed))
    async with site.program() as client:
        shown = (await client.get(f"/api/v1{path}")).json()
        listed = (await client.get(f"/api/v1{path}/tasks", params={"state": "failed", "limit": "500"})).json()
        wrong = await client.get(f"/api/v1{path}/tasks", params={"state": "bad"})
        unknown = (await client.get(f"/api/v1{path}/tasks/nope/result")).json()["detail"]
        progress = (await client.get(f"/api/v1{path}/progress")).json()["detail"]
    printed = (await cli("runs", "show", "daily_delays", "latest")).out
    local = (await cli("tasks", "list", "daily_delays", "latest", "--state", "failed", "--json")).json
    await site.history.database.pool.execute(REMOVED)
    all_shown = await page(site, path)

    assert (len(tasks_in(text)), tasks_in(text)[0], tasks_in(others)[0]) == (200, "join", "extra_198")
    assert ("200 of 1,103 tasks" in text, "The first 10. " in text, ">All failed tasks<" in text) == (True, True, True)
    assert ("extra_10" in all_shown, "The first 10" in all_shown) == (True, False)
    assert [tasks_in(each) for each in (failed, last)] == [[f"extra_{n}" for n in range(1, 11)], ["extra_11", "extra_12"]]
    assert "1,088 success" in text
    assert "The run has 1,103 tasks and instances: what each of them waits for is not shown here" in text
    assert "has 1,103 task instances, and what they wait for is said for at most 1,102" in progress
    removed = TaskList(dag_id="daily_delays", run_id=path.rpartition("/")[2], state=TaskState.REMOVED)
    past = encode("tasks", filters_of(removed), "extra_10", None, 0)
    assert "No other task is in this state" in await page(site, path, state="removed", cursor=past)
    assert (len(shown["tasks"]), shown["tasks_left"], shown["states"]["failed"]) == (1000, 103, 12)
    assert (
        [row["task_id"] for row in listed["items"]] == [row["task_id"] for row in local] == [f"extra_{n}" for n in range(1, 13)]
    )
    assert wrong.status_code == HTTPStatus.BAD_REQUEST
    assert unknown.endswith(
        "has no task 'nope'; its tasks are join, report, done, " + "".join(f"extra_{n}, " for n in range(1, 18)) + "and others"
    )
    assert "and 103 more; `tidegate tasks list daily_delays" in printed


async def test_the_extra_of_the_consumed_events_is_bounded(site: Site) -> None:
    await site.history.file()
    await site.history.updated("lake://flights", "f-1", {"file": "small"})
    await site.history.updated("lake://weather", "w-1", {"files": "x" * run_page.SHOWN_EXTRA})
    path = await run_path(site)

    text = await page(site, path)
    async with site.program() as client:
        shown, origin = [(await client.get(f"/api/v1{path}{below}")).json() for below in ("", "/origin")]
    run = (await site.history.database.run(run_pages.list_runs, limit=1))[0]
    none = await site.history.database.run(run_pages.events_of, run.dag_id, run.run_id, 10)
    of_dataset = await page(site, "/dataset", uri="lake://weather")
    await site.history.database.pool.execute("DELETE FROM dataset_event WHERE event_id = 'f-1'")
    later = await page(site, path)

    assert ("small" in text, "too large to be shown here" in text, len(text) < run_page.SHOWN_EXTRA) == (True, True, True)
    assert [event["extra"].keys() for event in (*shown["events"], *origin["events"])] == [{"file"}, {"files"}] * 2
    assert [event.extra for event in none] == [None, None]
    assert "too large to be shown here" in of_dataset
    assert [("f-1" in each, "1 is older than the retention" in each) for each in (text, later)] == [(True, False), (False, True)]


def next_of(text: str) -> str:
    return text.split('rel="next" href="')[1].split('"', maxsplit=1)[0].replace("&amp;", "&")


def tasks_in(text: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="[^"]+/tasks/(\w+)"', text)


SAME_NAME = """
INSERT INTO task_instance (dag_run_id, task_index, task_id, state, reason)
SELECT id, -1, 'report', 'removed', 'version 2 lacks it' FROM dag_run
"""


async def test_a_task_that_waits_says_for_what(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    await site.history.attempts_begin()
    await site.history.daemon()
    await site.history.database.pool.execute(SAME_NAME)

    text = await page(site, await run_path(site))
    of_task = await page(site, f"{await run_path(site)}/tasks/report")
    await site.history.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'it broke'")
    held = await page(site, await run_path(site))

    assert "at work" in text
    assert "version 2 lacks it" in text
    assert "at work" in held
    assert "the DAG to be released from its hold: it broke" in held
    assert "join" in of_task
    assert "Why does it not run?" in of_task
    assert '<span class="why grow">no try</span>' in of_task
    assert ["not begun</span>" in each for each in (text, of_task)] == [True, True]
    assert re.search(r"<p>A dataset run, created by [^<]+ because dataset events arrived</p>", text)


async def test_a_run_whose_version_cannot_be_read_is_shown(site: Site, cli: Cli) -> None:
    await site.history.file()
    await site.history.run()
    await site.history.database.pool.execute("UPDATE dag_version SET spec = spec - 'dag_id'")

    text = await page(site, await run_path(site))
    explained = await cli("runs", "explain", "daily_delays", "latest")

    fault = "version 1 cannot be read: ValidationError: Object missing required field `dag_id`"
    assert (text.count(fault), fault in explained.out) == (2, True)
    assert 'href="/dags/daily_delays/runs/' in text


async def test_a_task_shows_its_attempts_and_why_there_is_no_log(make_site: MakeSite) -> None:
    async with make_site(host="web-1") as site:
        await site.history.file()
        await site.history.run()
        (attempt,) = await site.history.attempts_begin()
        log = LogExcerpt(host=HOST, path="/spool/1/log", tail="the last <line>")
        await site.history.attempt_ends(attempt.submission_id, "failed", "it broke", log=log)
        text = await page(site, f"{await run_path(site)}/tasks/join")

    assert "Log of try 1" in text
    assert "is not on this host below" in text
    assert f"it ran on {HOST}; there," in text
    assert "join --try 1</code> prints it, from /spool/1/log" in text
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
        assert (await client.get("/dags/none/versions")).status_code == HTTPStatus.NOT_FOUND


MORE_VERSIONS = """
INSERT INTO dag_version (dag_id, number, spec, path, digest, source)
SELECT dag_id, n, spec, path, n::text, source FROM dag_version, generate_series(2, 12) AS n
WHERE (dag_id, number) = ('daily_delays', 1)
"""


async def test_every_version_is_reached_from_the_page_of_its_dag(site: Site) -> None:
    await site.history.file()
    await site.history.database.pool.execute(MORE_VERSIONS)

    dag = await page(site, "/dags/daily_delays")
    (earlier,) = re.findall(r'href="(/dags/daily_delays/versions\?[^"]+)"', dag)
    listed = await page(site, "/dags/daily_delays/versions", limit="11")
    past = await page(
        site, "/dags/daily_delays/versions", cursor=encode("versions", filters_of(VersionsOf(dag_id="daily_delays")), 1)
    )

    assert versions_in(dag) == [str(number) for number in range(12, 2, -1)]
    assert versions_in(await page(site, earlier)) == ["2", "1"]
    assert (versions_in(listed)[-1], "Next 11" in listed) == ("2", True)
    assert "There is no version before these" in past


def versions_in(text: str) -> list[str]:
    return re.findall(r'href="/dags/daily_delays/versions/(\d+)"', text)
