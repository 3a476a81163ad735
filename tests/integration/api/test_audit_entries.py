"""The entries of the audit log by requests: what they are about, and that what was refused or failed is never told as done."""

import random
import string
from http import HTTPStatus
from typing import Any

import httpx
import pytest

from tests.integration.web.conftest import Site
from tidegate.daemon import runs
from tidegate.daemon.permissions import Role
from tidegate.schemas.error import DagFaultError

DAG = "/api/v1/dags/mine_a"
LETTERS = random.Random(1)
LONG = "".join(LETTERS.choices(string.ascii_letters, k=3_000))
"""No index of Postgres has it as a whole: it is compressed by little."""


async def told(site: Site) -> list[tuple[Any, ...]]:
    query = "SELECT what, details ->> 'would_have', object FROM audit_log WHERE what <> 'created a token' ORDER BY id"
    return [tuple(row) for row in await site.history.database.pool.fetch(query)]


async def test_an_entry_names_the_object_of_the_change_and_none_of_its_options(two: Site) -> None:
    before = len(await told(two))
    async with two.program() as client:
        made = (await client.post(f"{DAG}/runs", params={"wait": "0s"}, json={})).json()["run_id"]
        await client.post(f"{DAG}/runs/latest/tasks/nothing/mark", json={"state": "failed"})
        await client.post(f"{DAG}/runs/latest/cancel")
        await client.post(f"{DAG}/runs/latest/cancel")
        await client.post(f"{DAG}/clear", json={"run_id": "latest", "task_ids": ["nothing"]})
        await client.put("/api/v1/pools/p, q", json={"slots": 1})
        await client.put("/api/v1/pools/p, q", json={"slots": 1}, headers={"if-none-match": "*"})
        await client.delete("/api/v1/tokens/999999")
        await client.delete("/api/v1/backfills/999999")
        await client.post("/api/v1/dead-letters/discard", json={"ids": [77], "because": "a test"})

    run = f"DAG mine_a, run_id {made}"
    assert (await told(two))[before:] == [
        ("triggered a run", None, run),
        ("was refused", "marked a task", f"{run}, task_id nothing"),
        ("cancelled a run", None, run),
        ("was refused", "cancelled a run", run),
        ("was refused", "cleared tasks", run),
        ("created a pool", None, 'pool "p, q"'),
        ("was refused", "changed a pool", 'pool "p, q"'),
        ("was refused", "revoked a token", "token 999999"),
        ("was refused", "deleted a backfill", "backfill 999999"),
        ("was refused", "discarded a dead letter", "dead letter 77"),
    ]


@pytest.mark.parametrize(
    ("fault", "status", "entries"),
    [
        (DagFaultError({"mine_a": "its version cannot be read"}), HTTPStatus.CONFLICT, [("was refused", "triggered a run")]),
        (RuntimeError("a fault of the server"), HTTPStatus.INTERNAL_SERVER_ERROR, []),
    ],
    ids=["DAG", "server"],
)
async def test_a_change_that_fails_is_not_told_as_done(
    two: Site, monkeypatch: pytest.MonkeyPatch, fault: Exception, status: HTTPStatus, entries: list[tuple[str, str]]
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise fault

    before = len(await told(two))
    monkeypatch.setattr(runs, "trigger", fail)
    async with two.program() as client:
        answer = await client.post(f"{DAG}/runs", json={"run_id": "d2"})

    assert answer.status_code == status
    assert (await told(two))[before:] == [(*entry, "DAG mine_a, run_id d2") for entry in entries]


async def test_an_event_that_is_not_sent_is_told_as_refused_alone(two: Site) -> None:
    """The entry of an event comes before it, for no transaction covers Kafka."""
    async with two.program() as client:
        refused = await client.post("/api/v1/events", json={"uri": "lake://a"})
        (listed,) = (await client.get("/api/v1/audit", params={"object": "dataset lake://a"})).json()["items"]

    asked, refusal = (await told(two))[-2:]
    assert refused.status_code == HTTPStatus.CONFLICT
    assert asked == ("asked to publish an event", None, "dataset lake://a")
    assert refusal == ("was refused", "published an event", "dataset lake://a")
    assert (listed["what"], listed["details"]["reason"]) == ("was refused", refused.json()["detail"])


@pytest.mark.parametrize(
    ("role", "change", "object_"),
    [
        (Role.VIEWER, ("POST", f"/api/v1/dags/{LONG}/clear"), f"DAG {LONG}"),
        (Role.EDITOR, ("POST", f"/api/v1/dags/mine_a/runs/{LONG}/cancel"), f"DAG mine_a, run_id {LONG}"),
        (Role.ADMIN, ("DELETE", f"/api/v1/users/{LONG}/sessions"), f"user {LONG}"),
        (Role.VIEWER, ("GET", f"/api/v1/audit?who={LONG}"), "the installation"),
    ],
    ids=["DAG", "run", "user", "read"],
)
async def test_a_long_name_leaves_an_entry(two: Site, role: Role, change: tuple[str, str], object_: str) -> None:
    async with two.program(role) as client:
        answer: httpx.Response = await client.request(*change)

    assert answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
    found = (await told(two))[-1][2]
    assert found == (object_ if len(object_) <= 2_000 else f"{object_[:2_000]}…")


async def test_a_long_reason_is_refused(two: Site) -> None:
    async with two.program() as client:
        answer = await client.post("/api/v1/dead-letters/discard", json={"ids": [1], "because": "x" * 2_001})

    assert (answer.status_code, "at most 2000 characters" in answer.text) == (HTTPStatus.BAD_REQUEST, True)
