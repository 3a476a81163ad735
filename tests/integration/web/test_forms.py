"""Changes by forms: each shows what it will do, and does it only with the CSRF token and the right."""

import re
from html import unescape
from http import HTTPStatus

import httpx
import pytest

from tests.integration.cli.history import DAILY
from tests.integration.web.conftest import Site, csrf_of
from tidegate.daemon.permissions import Role
from tidegate.daemon.web.rendering import url
from tidegate.schemas.queries import dag_pages, run_pages
from tidegate.schemas.queries.run_pages import RunRow

PARAMS = """
from tidegate import Dag, Param

with Dag("params", params={"day": Param("2013-01-01", type="string"), "rows": Param(3, type="integer", minimum=1)}) as dag:
    dag.command("show", ["true"])
"""


async def newest(site: Site) -> RunRow:
    return (await site.history.database.run(run_pages.list_runs, limit=1))[0]


async def send(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    """Open the form, and send it with its CSRF token."""
    page = await client.get(path)
    assert page.status_code == HTTPStatus.OK, page.text
    return await client.post(path, data={"csrf": csrf_of(page), **fields})


async def test_a_dag_is_paused_and_unpaused(site: Site) -> None:
    await site.history.file()
    async with site.browser(Role.EDITOR) as client:
        preview = (await client.get("/dags/daily_delays/pause")).text
        paused = await send(client, "/dags/daily_delays/pause", is_paused="true")
        unpaused = await send(client, "/dags/daily_delays/pause", is_paused="false")

    assert "No new run starts." in preview
    assert (paused.url.path, "paused</span>" in paused.text) == ("/dags/daily_delays", True)
    assert "active</span>" in unpaused.text


async def test_a_trigger_asks_for_the_params_of_the_dag(site: Site) -> None:
    await site.history.file(PARAMS, "params.py")
    async with site.browser(Role.EDITOR) as client:
        preview = (await client.get("/dags/params/trigger")).text
        page = await send(client, "/dags/params/trigger", **{"param.day": "2013-02-01", "param.rows": "7", "run_id": "mine"})

    assert 'name="param.day" value="2013-01-01"' in preview
    assert 'name="param.rows" value="3"' in preview
    assert page.url.path == "/dags/params/runs/mine"
    assert await site.history.database.run(run_pages.conf_of, "params", "mine") == {"day": "2013-02-01", "rows": 7}


async def test_a_trigger_of_a_dag_without_params_takes_a_conf(site: Site) -> None:
    await site.history.file()
    async with site.browser(Role.EDITOR) as client:
        path = "/dags/daily_delays/trigger"
        wrong = await send(client, path, conf="[1]")
        page = await send(client, path, conf='{"day": "2013-02-01"}', run_id="mine")

    assert (wrong.status_code, 'class="bad-text" role="alert">conf: write a JSON object' in wrong.text) == (
        HTTPStatus.BAD_REQUEST,
        True,
    )
    assert page.url.path == "/dags/daily_delays/runs/mine"
    assert await site.history.database.run(run_pages.conf_of, "daily_delays", "mine") == {"day": "2013-02-01"}


async def test_a_field_of_a_param_that_the_dag_lost_makes_no_run(site: Site) -> None:
    await site.history.file(PARAMS, "params.py")
    async with site.browser(Role.EDITOR) as client:
        page = await send(client, "/dags/params/trigger", **{"param.row": "7"})

    assert (page.status_code, "did you mean rows?" in page.text) == (HTTPStatus.BAD_REQUEST, True)
    assert await site.history.database.run(run_pages.list_runs) == []


async def test_a_trigger_of_a_dag_with_extra_params_takes_both(site: Site) -> None:
    await site.history.file(PARAMS.replace('"params", ', '"params", extra_params=True, '), "params.py")
    async with site.browser(Role.EDITOR) as client:
        page = await send(client, "/dags/params/trigger", conf='{"free": 1}', run_id="mine", **{"param.rows": "7"})

    assert page.url.path == "/dags/params/runs/mine"
    conf = {"day": "2013-01-01", "rows": 7, "free": 1}
    assert await site.history.database.run(run_pages.conf_of, "params", "mine") == conf


TYPED = """
from tidegate import Dag, Param
with Dag("typed", params={
    "rows": Param(3, type="integer", minimum=1, maximum=9, description="of each <day>"),
    "full": Param(True, type="boolean"),
    "day": Param("2013-01-31", type="string", format="date"),
    "mode": Param(type="string", enum=["fast", "safe"]),
    "x": 1,
}): pass
"""


async def test_a_trigger_asks_in_the_order_of_the_file_by_type_and_takes_what_is_not_ticked(site: Site) -> None:
    await site.history.file(TYPED, "typed.py")
    async with site.browser(Role.EDITOR) as client:
        form = (await client.get("/dags/typed/trigger")).text
        chosen = {"param.rows": "4", "param.full": "false", "param.mode": "safe", "run_id": "mine"}
        page = await send(client, "/dags/typed/trigger", **chosen)

    inputs = re.findall(r'<(?:input|select|textarea)(?: type="(\w+)")?[^>]*name="param\.(\w+)"', form)
    assert inputs == [("number", "rows"), ("hidden", "full"), ("checkbox", "full"), ("date", "day"), ("", "mode"), ("", "x")]
    assert re.search(r'<input type="number"[^>]* min="1" max="9" step="1" name="param.rows" value="3"', form)
    assert "of each &lt;day&gt;; 1 or more; 9 or less; empty: the default, 3" in form
    assert re.search(r'<select[^>]* name="param.mode" required>', form)
    assert page.url.path == "/dags/typed/runs/mine"
    conf = {"rows": 4, "full": False, "day": "2013-01-31", "mode": "safe", "x": 1}
    assert await site.history.database.run(run_pages.conf_of, "typed", "mine") == conf


async def test_a_form_that_is_sent_twice_makes_one_run(site: Site) -> None:
    await site.history.file(PARAMS, "params.py")
    async with site.browser(Role.EDITOR) as client:
        form = await client.get("/dags/params/trigger")
        (made,) = re.findall(r'name="made" value="([^"]+)"', form.text)
        of_form = {"csrf": csrf_of(form), "made": made, "param.day": "2013-02-01"}
        sent = [await client.post("/dags/params/trigger", data=of_form) for _ in range(2)]
        date = {"logical_date": "2013-02-01"}
        dated = await send(client, "/dags/params/trigger", made="manual__dated", **date, **{"param.day": "2013-02-01"})
        again = await send(client, "/dags/params/trigger", made="manual__again", **date, **{"param.day": "2013-02-01"})
        runs = await site.history.database.run(run_pages.list_runs)

    assert [page.url.path for page in (*sent, dated)] == [f"/dags/params/runs/{id_}" for id_ in [made] * 2 + ["manual__dated"]]
    assert (again.status_code, "already has run" in again.text) == (HTTPStatus.CONFLICT, True)
    assert [run.run_id for run in runs] == ["manual__dated", made]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"param.rows": "0"},
            '"0"><span id="param.rows-problem" class="bad-text" role="alert">'
            "param &#39;rows&#39;: 0 is less than the minimum of 1; write 1 or more",
        ),
        ({"param.rows": "many"}, '"many"><span id="param.rows-problem" class="bad-text" role="alert">param rows: write JSON'),
        ({"run_id": "a b"}, '"a b"><span id="run_id-problem" class="bad-text" role="alert">a run id is 1 to 250 of'),
        (
            {"logical_date": "tomorrow"},
            '<span id="logical_date-problem" class="bad-text" role="alert">logical_date: write a date',
        ),
    ],
)
async def test_a_wrong_field_makes_no_run(site: Site, fields: dict[str, str], says: str) -> None:
    await site.history.file(PARAMS, "params.py")
    async with site.browser() as client:
        page = await send(client, "/dags/params/trigger", **{"param.day": "2013-02-01", **fields})

    assert page.is_client_error
    assert says in page.text
    assert 'name="param.day" value="2013-02-01"' in page.text
    assert all(f'value="{text}"' in page.text for text in fields.values())
    assert await site.history.database.run(run_pages.list_runs) == []


NOTES = "SELECT who, object, details ->> 'note_before', details ->> 'note' FROM audit_log WHERE what LIKE '% a note' ORDER BY id"


async def test_a_note_is_written_changed_and_removed(site: Site) -> None:
    hostile = "<script>alert(1)</script>\n  late: the vendor delivers at noon"
    await site.history.file()
    await site.history.run()
    run = f"/dags/daily_delays/runs/{(await newest(site)).run_id}"
    async with site.browser(Role.EDITOR) as client:
        written = await send(client, f"{run}/note", content=hostile)
        of_task = await send(client, f"{run}/tasks/join/note", content="known")
        shown = await client.get(run)
        form = await client.get(f"{run}/note")
        long = await send(client, f"{run}/note", content="x" * 2001)
        unknown = await client.get(f"{run}/tasks/nothing/note")
        removed = await send(client, f"{run}/note", content="  ")

    assert "&lt;script&gt;alert(1)&lt;/script&gt;\n  late: the vendor" in written.text
    assert "&lt;script&gt;" in form.text
    assert "<script>alert" not in written.text + form.text
    assert (of_task.url.path, '<p class="note">known</p>' in of_task.text) == (f"{run}/tasks/join", True)
    assert '<span class="note">known</span>' in shown.text
    assert (long.status_code, "at most 2000 characters; this one has 2001" in long.text) == (HTTPStatus.CONFLICT, True)
    assert f">{'x' * 2001}</textarea>" in long.text
    assert unknown.status_code == HTTPStatus.NOT_FOUND
    assert "late: the vendor" not in removed.text
    assert "known" in removed.text
    subject = f"DAG daily_delays, run_id {(await newest(site)).run_id}"
    assert [tuple(row) for row in await site.history.database.pool.fetch(NOTES)] == [
        ("anna", subject, None, hostile),
        ("anna", f"{subject}, task_id join", None, "known"),
        ("anna", subject, hostile, None),
    ]
    await site.history.database.pool.execute("DELETE FROM dag_run")
    assert await site.history.database.pool.fetchval("SELECT count(*) FROM note") == 0


async def test_a_clearing_shows_the_tasks_and_clears_them(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    await site.history.worked()
    await site.history.worked()
    path = f"/dags/daily_delays/runs/{(await newest(site)).run_id}/clear"
    async with site.browser(Role.EDITOR) as client:
        preview = (await client.get(path, params={"task": "join"})).text
        page = await send(client, path, task="join")

    assert "Clear 3 tasks of 1 run" in preview
    assert "join, report, done" in preview
    assert page.url.path == path.removesuffix("/clear")
    assert (await newest(site)).unfinished == 3


async def pressed(client: httpx.AsyncClient, page: httpx.Response, button: str, **changed: str) -> httpx.Response:
    """Change fields of a form, and press one of its buttons, as a browser without JavaScript does."""
    (form,) = re.findall(r'<form class="form" .*?</form>', page.text, re.DOTALL)
    fields = dict(re.findall(r'<input [^>]*name="([^"]+)" value="([^"]*)"(?: checked)?(?: required)?>', _without_blanks(form)))
    (pressed,) = re.findall(rf'<button[^>]*name="(\w+)" value="([^"]*)">{button}</button>', form)
    (action,) = re.findall('action="([^"]+)"', form)
    texts = {name: unescape(text) for name, text in {**fields, **dict([pressed])}.items()}
    return await client.post(action, data={**texts, **changed})


def _without_blanks(form: str) -> str:
    """The form without its checkboxes that are not ticked: a browser does not send them."""
    return re.sub(r'<input type="checkbox" [^>]*value="true">', "", form)


async def test_a_clearing_does_what_its_form_shows(site: Site) -> None:
    await failed_run(site)
    run = f"/dags/daily_delays/runs/{(await newest(site)).run_id}"
    async with site.browser(Role.EDITOR) as client:
        form = await client.get(f"{run}/clear", params={"only_failed": "true"})
        ticked = await pressed(client, form, "Clear 3 tasks of 1 run", newest_version="true")
        state = (await newest(site)).state
        shown = await pressed(client, ticked, "Show what this does", task="join", no_downstream="true")
        wrong = await pressed(client, shown, "Show what this does", task="jion")
        done = await pressed(client, ticked, "Clear 3 tasks of 1 run")

    choices = {"only_failed": "true", "newest_version": "true"}
    assert (dict(ticked.url.params), ticked.url.path, state) == (choices, f"{run}/clear", "failed")
    assert dict(shown.url.params) == {**choices, "task": "join", "no_downstream": "true"}
    assert "Clear 1 task of 1 run" in shown.text
    assert "has no task &#39;jion&#39;" in wrong.text
    assert 'name="task" value="jion"' in wrong.text
    assert done.url.path == run
    assert ((await newest(site)).state, (await newest(site)).version) == ("queued", 2)


async def failed_run(site: Site) -> None:
    """A run of which the first task failed; its DAG has another version since then."""
    await site.history.file(DAILY.replace("retries=1", "retries=0"))
    await site.history.run()
    (attempt,) = await site.history.attempts_begin()
    await site.history.attempt_ends(attempt.submission_id, "failed", reason="KeyError: 'amount'")
    await site.history.file()


async def test_a_failed_run_and_its_clearing_name_both_versions(site: Site) -> None:
    await failed_run(site)
    run = f"/dags/daily_delays/runs/{(await newest(site)).run_id}"
    async with site.browser(Role.EDITOR) as client:
        page = (await client.get(run)).text
        (link,) = re.findall('<a href="([^"]+)">Clear by version 2…</a>', page)
        by_own = (await client.get(f"{run}/clear")).text
        by_newest = await client.get(unescape(link))
        await pressed(client, by_newest, "Clear 3 tasks of 1 run")
        again = (await client.get(f"{run}/clear")).text

    assert 'The run has version 1. The DAG has <a href="/dags/daily_delays/versions/2">version 2</a> since ' in page
    assert "3 tasks of 1 run will run again by version 1 of daily_delays; the newest is version 2." in by_own
    assert "3 tasks of 1 run will run again by version 2 of daily_delays." in by_newest.text
    assert "By version 2, the newest of the DAG, since 20" in by_own
    assert ("by version 2 of daily_delays." in again, "newest_version" in again) == (True, False)


CHAINED = """
from tidegate import Dag, Dataset
a = Dataset("lake://a")
with Dag("writer") as dag: dag.command("write", ["true"], outlets=[a])
with Dag("reader", schedule=a) as dag: dag.command("read", ["true"])
"""


async def test_a_clearing_names_what_consumed_and_may_run_it_again(site: Site) -> None:
    await site.history.file(CHAINED)
    async with site.browser(Role.EDITOR) as client:
        await send(client, "/dags/writer/trigger", run_id="w")
        await site.history.worked()
        await site.history.relayed()
        await site.history.worked()
        reader = await newest(site)
        plain = (await client.get("/dags/writer/runs/w/clear")).text
        cascading = await client.get("/dags/writer/runs/w/clear?cascade=true")
        done = await pressed(client, cascading, "Clear 1 task of 1 run")
        page = (await client.get(f"/dags/reader/runs/{reader.run_id}")).text

    assert "1 run of 1 DAG consumed what these tasks wrote, or what followed from it." in plain
    assert f"reader {reader.run_id} (success)." in plain
    assert "They stay as they are, with the data that they have read." in plain
    assert "They run again after it, in order." in cascading.text
    assert done.url.path == "/backfills/1"
    assert "Its input was written again since" in page
    assert "lake://a is written again: task write of writer w is none since it was cleared" in page


async def test_a_run_is_cancelled_once(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    await site.history.attempts_begin()
    path = f"/dags/daily_delays/runs/{(await newest(site)).run_id}/cancel"
    async with site.browser(Role.EDITOR) as client:
        preview = (await client.get(path)).text
        page = await send(client, path)
        again = (await client.get(path)).text
        states = await site.history.database.run(run_pages.states_of, "daily_delays", (await newest(site)).run_id)

    assert "1 active task fails, and its attempt is killed; 2 waiting tasks are skipped, and the run fails." in preview
    assert ((await newest(site)).state, states) == ("failed", {"failed": 1, "skipped": 2})
    assert "cancelled by anna" in page.text
    assert "The run has ended already: failed." in again
    assert "<button>Cancel" not in again


async def test_a_run_and_a_task_are_marked(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    path = f"/dags/daily_delays/runs/{(await newest(site)).run_id}"
    async with site.browser(Role.EDITOR) as client:
        marked = await send(client, f"{path}/tasks/join/mark", state="success")
        again = (await client.get(f"{path}/tasks/join/mark")).text
        tasks = await site.history.database.run(run_pages.tasks_of, "daily_delays", (await newest(site)).run_id)
        await send(client, f"{path}/mark", state="success")

    assert tasks[0].state == "success"
    assert marked.url.path == f"{path}/tasks/join"
    assert ('<option value="failed" selected>failed</option>' in again, '/tasks/join">Back<' in again) == (True, True)
    assert (await newest(site)).state == "success"


FORMS = ("clear", "cancel", "mark", "note", "tasks/join/mark", "tasks/join/note")


async def test_a_form_about_the_latest_run_changes_the_run_that_it_showed(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    run = await newest(site)
    async with site.browser(Role.EDITOR) as client:
        pages = [(await client.get(f"/dags/daily_delays/runs/latest/{form}")).text for form in FORMS]

    sent_to = [re.findall('method="post" action="(/dags/[^"]+)"', page) for page in pages]
    assert sent_to == [[f"{url('dags', 'daily_delays', 'runs', run.run_id)}/{form}"] for form in FORMS]


PATHS = ("pause", "trigger", "runs/{run}/clear", "runs/{run}/cancel", "runs/{run}/mark", "runs/{run}/tasks/join/mark")


@pytest.mark.parametrize("path", PATHS)
async def test_a_form_does_nothing_without_its_token_or_the_right(site: Site, path: str) -> None:
    await site.history.file()
    await site.history.run()
    path = f"/dags/daily_delays/{path.format(run=(await newest(site)).run_id)}"
    fields = {"is_paused": "true", "state": "success"}
    async with site.browser(Role.EDITOR) as editor, site.browser(Role.VIEWER) as viewer, site.browser(dags=("other",)) as other:
        csrf = csrf_of(await viewer.get("/dags"))
        answers = [
            await editor.post(path, data=fields),
            await editor.post(path, data={**fields, "csrf": "0" * 64}),
            await viewer.get(path),
            await viewer.post(path, data={**fields, "csrf": csrf}),
            await other.post(path, data={**fields, "csrf": csrf_of(await other.get("/dags"))}),
        ]

    assert [answer.status_code for answer in answers] == [HTTPStatus.FORBIDDEN] * 5
    assert (await newest(site)).state == "running"
    assert (await site.history.database.run(dag_pages.list_dags))[0].is_paused is False


async def test_what_a_page_offers_depends_on_the_right(site: Site) -> None:
    await site.history.file()
    async with site.browser(Role.VIEWER) as viewer, site.browser(Role.EDITOR) as editor:
        seen = [re.findall(r"(Trigger|Pause)…", (await client.get("/dags/daily_delays")).text) for client in (viewer, editor)]

    assert seen == [[], ["Pause", "Trigger"]]
