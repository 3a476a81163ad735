"""Who may call which endpoint: every role on every endpoint of the tables, and objects of others."""

from http import HTTPStatus
from typing import Any

import httpx
import pytest

from tests.integration.web.conftest import Site
from tidegate.daemon.api.openapi import document
from tidegate.daemon.api.routes import ENDPOINTS
from tidegate.daemon.gateway.endpoint import Act, Endpoint
from tidegate.daemon.permissions import NEEDED, Right, Role

PATH = {
    "dag_id": "none",
    "run_id": "none",
    "task_id": "none",
    "backfill_id": "999",
    "id": "999",
    "number": "999",
    "name": "none",
    "username": "none",
}
"""No such object exists, so that no request changes anything."""

DATES = {"start_date": "2013-01-01T00:00:00Z", "end_date": "2013-01-02T00:00:00Z"}

BODIES: dict[str, dict[str, Any]] = {
    "DagPatch": {"is_paused": True},
    "Mark": {"state": "failed"},
    "NewNote": {"content": "a"},
    "Clear": {"run_id": "none"},
    "RunsToCancel": {"run_ids": ["none"]},
    "NewEvent": {"uri": ""},
    "NewBackfill": {"dag_id": "none", **DATES},
    "BackfillPatch": {"limits": {"max_active_runs": 1}},
    "Slots": {"slots": -1},
    "Replay": {"ids": [999]},
    "Discard": {"ids": [999], "because": "a test"},
    "Resume": {"partition": "none/0", "at": "latest"},
    "Skip": {"partition": "none/0", "offset": 0, "because": "a test"},
    "Settle": {"because": "a test"},
}
"""A valid body of each type that has required fields."""

DECLARED: Any = document(ENDPOINTS)["paths"]

QUERY = {"/events": {"uri": "lake://none"}, "/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/log/matches": {"text": "none"}}


async def call(client: httpx.AsyncClient, endpoint: Endpoint) -> httpx.Response:
    url = f"/api/v1{endpoint.path.format(**PATH)}"
    if isinstance(endpoint, Act):
        return await client.request(endpoint.method, url, json=BODIES.get(endpoint.body.__name__, {}))
    return await client.get(url, params=QUERY.get(endpoint.path))


@pytest.mark.parametrize("role", list(Role))
async def test_each_endpoint_answers_the_roles_that_have_its_right(site: Site, role: Role) -> None:
    roles = list(Role)
    async with site.program(role) as client:
        for endpoint in ENDPOINTS:
            answer = await call(client, endpoint)
            may = roles.index(role) >= roles.index(NEEDED[endpoint.right])
            is_refused = answer.status_code == HTTPStatus.FORBIDDEN
            assert is_refused is not may, (endpoint.method, endpoint.path, answer.text)
            assert str(answer.status_code) in DECLARED[endpoint.path][endpoint.method.lower()]["responses"], endpoint.path
            assert answer.status_code < 500, (endpoint.method, endpoint.path, answer.text)
            assert answer.status_code != HTTPStatus.BAD_REQUEST, (endpoint.method, endpoint.path, answer.text)
    refused = "SELECT DISTINCT object FROM audit_log WHERE what = 'was refused' AND details ->> 'request' LIKE '%/backfills/%'"
    objects = [row["object"] for row in await site.history.database.pool.fetch(refused)]
    assert objects == [f"backfill {PATH['backfill_id']}"]


async def test_each_endpoint_needs_a_token(site: Site) -> None:
    async with site.anonymous() as client:
        for endpoint in ENDPOINTS:
            assert (await call(client, endpoint)).status_code == HTTPStatus.UNAUTHORIZED


def test_only_reads_and_previews_are_open_to_viewers() -> None:
    assert [e.path for e in ENDPOINTS if isinstance(e, Act) and e.right is Right.VIEW] == ["/backfills/preview"]


CHANGES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("PATCH", "/dags/{dag}", {"is_paused": True}),
    ("POST", "/dags/{dag}/release", {}),
    ("DELETE", "/dags/{dag}", {}),
    ("POST", "/dags/{dag}/runs", {}),
    ("POST", "/dags/{dag}/clear", {"run_id": "r"}),
    ("POST", "/dags/{dag}/cancel", {"run_ids": ["r"]}),
    ("POST", "/dags/{dag}/runs/r/cancel", {}),
    ("POST", "/dags/{dag}/runs/r/mark", {"state": "failed"}),
    ("POST", "/dags/{dag}/runs/latest/mark", {"state": "failed"}),
    ("POST", "/dags/{dag}/runs/r/tasks/first/mark", {"state": "failed"}),
    ("PUT", "/dags/{dag}/runs/r/note", {"content": "a"}),
    ("DELETE", "/dags/{dag}/runs/r/note", {}),
    ("PUT", "/dags/{dag}/runs/r/tasks/first/note", {"content": "a"}),
    ("DELETE", "/dags/{dag}/runs/r/tasks/first/note", {}),
    ("POST", "/backfills", {"dag_id": "{dag}", **DATES}),
    ("PATCH", "/backfills/1", {"limits": {"max_active_runs": 1}}),
    ("POST", "/backfills/1/pause", {}),
    ("POST", "/backfills/1/resume", {}),
    ("POST", "/backfills/1/cancel", {}),
    ("POST", "/backfills/1/retry", {}),
    ("DELETE", "/backfills/1", {}),
)
"""Every change that is about a DAG. Backfill 1 is of the DAG `other`."""


def test_the_table_of_changes_has_every_endpoint_about_a_dag() -> None:
    paths = {
        (method, path.replace("/1", "/{backfill_id}").replace("{dag}", "{dag_id}").replace("/r/", "/{run_id}/"))
        for method, path, _ in CHANGES
    }
    about_dags = {(e.method, e.path.replace("{task_id}", "first")) for e in ENDPOINTS if e.right in (Right.EDIT, Right.BACKFILL)}
    assert about_dags <= paths


async def test_a_token_of_some_dags_changes_no_other_dag(two: Site) -> None:
    async with two.program() as admin:
        made = await admin.post("/api/v1/backfills", json={"dag_id": "other", **DATES})
        assert made.status_code == HTTPStatus.CREATED, made.text
    before = await state_of(two)
    async with two.program(Role.ADMIN, user="eve", dags=("mine_*",)) as client:
        for method, path, body in CHANGES:
            sent = {name: "other" if value == "{dag}" else value for name, value in body.items()}
            answer = await client.request(method, f"/api/v1{path.format(dag='other')}", json=sent)
            assert answer.status_code == HTTPStatus.FORBIDDEN, (method, path, answer.text)
            assert answer.json()["detail"] == "eve may change the DAGs mine_*, not 'other'"

    assert await state_of(two) == before
    query = "SELECT object FROM audit_log WHERE who = 'eve' AND what = 'was refused' ORDER BY id"
    assert [row["object"] for row in await two.history.database.pool.fetch(query)] == [
        *["DAG other"] * 6,
        *["DAG other, run_id r"] * 3,
        *["DAG other, run_id r, task_id first"],
        *["DAG other, run_id r"] * 2,
        *["DAG other, run_id r, task_id first"] * 2,
        *["DAG other"],
        *["DAG other, backfill 1"] * 6,
    ]


async def test_a_blank_note_removes_none(two: Site) -> None:
    async with two.program() as client:
        await client.put("/api/v1/dags/other/runs/r/note", json={"content": "a"})
        blank = [await client.put(f"/api/v1/dags/other/runs/r{of}/note", json={"content": " \n"}) for of in ("", "/tasks/first")]
        run = await client.get("/api/v1/dags/other/runs/r")

    assert [(answer.status_code, answer.json()["detail"]) for answer in blank] == [
        (HTTPStatus.BAD_REQUEST, "content: the note is blank; DELETE removes the note")
    ] * 2
    assert [note["content"] for note in run.json()["notes"]] == ["a"]


async def state_of(site: Site) -> list[Any]:
    tables = ("dag", "dag_run", "task_instance", "backfill", "backfill_date", "note")
    query = " UNION ALL ".join(f"SELECT md5(string_agg({t}::text, ',' ORDER BY {t}::text)) FROM {t}" for t in tables)
    return [row[0] for row in await site.history.database.pool.fetch(query)]


async def cascading(site: Site) -> None:
    """The DAG `other` consumes what `mine_a` updates."""
    source = """
from tidegate import Dag, Dataset, cron
with Dag("mine_a", schedule=cron("0 6 * * *"), catchup=False, run_immediately=False) as dag:
    dag.command("first", ["true"], outlets=[Dataset("lake://a")])
"""
    await site.history.file(source, "a.py")
    consumer = (
        'from tidegate import Dag, Dataset\nwith Dag("other", schedule=Dataset("lake://a")) as dag:\n    dag.empty("done")\n'
    )
    await site.history.file(consumer, "b.py")


async def test_a_cascade_needs_the_right_for_every_consumer(site: Site) -> None:
    await cascading(site)
    body = {"dag_id": "mine_a", **DATES, "reprocess": "completed", "outlets": "cascade"}
    async with site.program() as admin, site.program(Role.EDITOR, dags=("mine_*",)) as client:
        refused = [await client.post("/api/v1/backfills", json=body)]
        assert (await admin.post("/api/v1/backfills", json=body)).status_code == HTTPStatus.CREATED
        for method, path, change in CHANGES:
            if "/backfills/1" in path:
                refused.append(await client.request(method, f"/api/v1{path}", json=change))

    assert [answer.status_code for answer in refused] == [HTTPStatus.FORBIDDEN] * 7, refused[-1].text
    assert all("not 'other'" in answer.json()["detail"] for answer in refused)


async def test_a_clear_that_cascades_needs_the_right_for_every_consumer(site: Site) -> None:
    await cascading(site)
    async with site.program(Role.EDITOR, dags=("mine_*",)) as client:
        answers = [
            await client.post("/api/v1/dags/mine_a/clear", json={"run_id": "r", "cascade": True, "dry_run": dry_run})
            for dry_run in (True, False)
        ]
        plain = await client.post("/api/v1/dags/mine_a/clear", json={"run_id": "r", "dry_run": True})

    assert [answer.status_code for answer in answers] == [HTTPStatus.FORBIDDEN] * 2
    assert all("not 'other'" in answer.json()["detail"] for answer in answers)
    assert plain.status_code != HTTPStatus.FORBIDDEN


async def test_the_form_of_a_cascade_needs_the_right_for_every_consumer(site: Site) -> None:
    await cascading(site)
    body = {"dag_id": "mine_a", **DATES, "reprocess": "completed", "outlets": "cascade"}
    async with site.program() as admin, site.browser(Role.EDITOR, dags=("mine_*",)) as client:
        await admin.post("/api/v1/backfills", json=body)
        page = await client.get("/backfills/1")
        form = await client.get("/backfills/1/cancel")

    assert (page.status_code, "/backfills/1/cancel" in page.text) == (HTTPStatus.OK, False)
    assert form.status_code == HTTPStatus.FORBIDDEN
