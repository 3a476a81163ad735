"""What the requests of all endpoints share: keys, ETags, limits, bad input, and the audit log."""

import asyncio
from http import HTTPStatus
from typing import Any

import anyio
import httpx
import msgspec
import pytest

from tests.integration.api.conftest import DAG, two_dags
from tests.integration.web.conftest import MakeSite, Site
from tests.waiting import until
from tidegate.daemon import pools, runs
from tidegate.daemon.api import datasets
from tidegate.daemon.api import runs as runs_api
from tidegate.daemon.api.dags import NextRuns, VersionsOf
from tidegate.daemon.api.tasks import TaskList
from tidegate.daemon.gateway.cursor import NOT_OURS, encode
from tidegate.daemon.gateway.lists import Listed, filters_of
from tidegate.daemon.permissions import Role
from tidegate.daemon.read_model import lookup
from tidegate.events import topics
from tidegate.schemas.error import DagFaultError, UnavailableError
from tidegate.schemas.queries import idempotency

RUNS = "/api/v1/dags/mine_a/runs"


async def run_ids(client: httpx.AsyncClient) -> list[str]:
    listed = (await client.get("/api/v1/runs", params={"dag_id": "mine_a"})).json()
    return [run["run_id"] for run in listed["items"]]


async def test_a_repeated_key_returns_the_first_result_for_a_day(two: Site) -> None:
    async with two.program() as client:
        first = await client.post(RUNS, json={"conf": {"n": 1}}, headers={"idempotency-key": "k"})
        again = await client.post(RUNS, json={"conf": {"n": 1}}, headers={"idempotency-key": "k"})

        assert (first.status_code, first.content) == (again.status_code, again.content)
        assert first.status_code == HTTPStatus.CREATED
        assert await run_ids(client) == [first.json()["run_id"], "r"]

        await two.history.database.pool.execute("UPDATE idempotency_key SET created_at = created_at - interval '25 hours'")
        later = await client.post(RUNS, json={"conf": {"n": 1}}, headers={"idempotency-key": "k"})
        assert later.status_code == HTTPStatus.CREATED
        assert await run_ids(client) == [later.json()["run_id"], first.json()["run_id"], "r"]


async def test_a_key_of_many_requests_at_once_makes_one_run(two: Site) -> None:
    answers: list[httpx.Response] = []

    async def post() -> None:
        answers.append(await client.post(RUNS, json={}, headers={"idempotency-key": "k"}))

    async with two.program() as client:
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(post)
        assert len(await run_ids(client)) == 2

    codes = {answer.status_code for answer in answers}
    assert codes <= {HTTPStatus.CREATED, HTTPStatus.CONFLICT}
    assert HTTPStatus.CREATED in codes


async def test_another_body_path_or_query_under_the_same_key_is_refused(two: Site) -> None:
    async with two.program() as client:
        await client.post(RUNS, json={}, headers={"idempotency-key": "k"})
        body = await client.post(RUNS, json={"conf": {"n": 1}}, headers={"idempotency-key": "k"})
        path = await client.post("/api/v1/dags/other/runs", json={}, headers={"idempotency-key": "k"})
        query = await client.post(RUNS, params={"wait": "0s"}, json={}, headers={"idempotency-key": "k"})
        async with two.program(user="ben") as other:
            of_another_user = await other.post(RUNS, json={}, headers={"idempotency-key": "k"})

    assert [answer.status_code for answer in (body, path, query)] == [HTTPStatus.UNPROCESSABLE_ENTITY] * 3
    assert body.json()["type"] == "urn:tidegate:problem:reused-key"
    assert of_another_user.status_code == HTTPStatus.CREATED


async def test_a_refused_request_leaves_its_key_free(two: Site) -> None:
    async with two.program() as client:
        headers = {"idempotency-key": "k"}
        exists = await client.post(RUNS, json={"run_id": "r", "conf": {"n": 1}}, headers=headers)
        instead = await client.post(RUNS, json={"run_id": "s"}, headers=headers)
        missing = await client.put("/api/v1/pools/p", json={"slots": 1}, headers={"idempotency-key": "p", "if-match": '"9"'})
        now = await client.put("/api/v1/pools/p", json={"slots": 1}, headers={"idempotency-key": "p"})

    assert (exists.status_code, instead.status_code) == (HTTPStatus.CONFLICT, HTTPStatus.CREATED)
    assert "retry-after" not in exists.headers
    assert (missing.status_code, now.status_code) == (HTTPStatus.PRECONDITION_FAILED, HTTPStatus.OK)


async def test_a_run_of_a_server_that_ended_is_found_by_its_key(two: Site) -> None:
    """The claim of the key is committed, the run as well, and the result was not stored."""
    async with two.program() as client:
        first = await client.post(RUNS, json={}, headers={"idempotency-key": "k"})
        unfinished = "UPDATE idempotency_key SET status = NULL, content = NULL, claimed_at = now() - interval '{}'"
        await two.history.database.pool.execute(unfinished.format("1 second"))
        at_work = await client.post(RUNS, json={}, headers={"idempotency-key": "k"})
        await two.history.database.pool.execute(unfinished.format("1 hour"))
        again = await client.post(RUNS, json={}, headers={"idempotency-key": "k"})

        assert (at_work.status_code, at_work.headers["retry-after"]) == (HTTPStatus.CONFLICT, "5")
        assert again.json()["run_id"] == first.json()["run_id"]
        assert len(await run_ids(client)) == 2


async def test_a_repeat_after_a_failure_need_not_wait(two: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is committed, Postgres goes away before its answer, and is back with the repeat."""
    trigger, set_paused, set_slots, give_up = runs.trigger, runs.set_paused, pools.set_slots, idempotency.give_up
    changes: tuple[tuple[str, str, dict[str, Any], HTTPStatus], ...] = (
        ("POST", RUNS, {}, HTTPStatus.CREATED),
        ("PATCH", "/api/v1/dags/mine_a", {"is_paused": True}, HTTPStatus.OK),
        ("PUT", "/api/v1/pools/p", {"slots": 1}, HTTPStatus.CONFLICT),
    )
    async with two.program() as client:
        for is_away in (False, True):
            monkeypatch.setattr(runs, "trigger", failing(trigger))
            monkeypatch.setattr(runs, "set_paused", failing(set_paused))
            monkeypatch.setattr(pools, "set_slots", failing(set_slots))
            monkeypatch.setattr(idempotency, "give_up", failing(give_up, times=3 * is_away, is_done=False))
            for method, path, body, _ in changes:
                headers = {"idempotency-key": f"{path} {is_away}"}
                failed = await client.request(method, path, json=body, headers=headers)
                assert failed.status_code == HTTPStatus.SERVICE_UNAVAILABLE
            for method, path, body, status in changes:
                headers = {"idempotency-key": f"{path} {is_away}"}
                again = await client.request(method, path, json=body, headers=headers)
                assert (again.status_code, "is at work" in again.text) == (status, False), again.text
        assert len(await run_ids(client)) == 3


def failing(work: Any, times: int = 1, *, is_done: bool = True) -> Any:
    """The first calls get no answer; `is_done`: they are done."""
    left = [UnavailableError("Postgres is not available", server="Postgres")] * times

    async def works(*args: Any, **options: Any) -> Any:
        result = await work(*args, **options) if is_done or not left else None
        if left:
            raise left.pop()
        return result

    return works


async def test_events_share_a_connection_while_kafka_does_not_answer(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "PUBLISH_S", 1.0)
    opened = set[asyncio.StreamWriter]()
    at_once: list[int] = []
    answers: list[httpx.Response] = []

    async def post() -> None:
        answers.append(await client.post("/api/v1/events", json={"uri": "lake://flights"}))

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.add(writer)
        at_once.append(len(opened))
        while await reader.read(1 << 16):
            pass
        opened.remove(writer)
        writer.close()

    silent = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    servers = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    async with silent, make_site(kafka_servers=servers) as site, site.program() as client, anyio.create_task_group() as group:
        for _ in range(30):
            group.start_soon(post)
    await until(lambda: not opened, 60)

    assert {answer.status_code for answer in answers} == {HTTPStatus.SERVICE_UNAVAILABLE}
    assert max(at_once) < 4, "the one sink tries again and again, and may look why it is refused"


async def test_a_dag_that_cannot_be_decided_about_leaves_the_key_free(two: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def faulty(*_: Any, **__: Any) -> None:
        raise DagFaultError({"mine_a": "a decision failed"})

    async with two.program() as client:
        with monkeypatch.context() as patch:
            patch.setattr(runs, "trigger", faulty)
            refused = await client.post(RUNS, json={}, headers={"idempotency-key": "k"})
        instead = await client.post(RUNS, json={"run_id": "s"}, headers={"idempotency-key": "k"})

    assert (refused.status_code, instead.status_code) == (HTTPStatus.CONFLICT, HTTPStatus.CREATED)


async def test_an_outage_during_the_wait_for_a_run_is_no_failure(two: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that asks for a repeat would cost a second run."""
    away = [True]

    async def find(*args: Any) -> Any:
        if away:
            away.pop()
            raise UnavailableError("Postgres is not available", server="Postgres")
        return await lookup.find_run(*args)

    async with two.program() as client:
        monkeypatch.setattr(runs_api, "find_run", find)
        answer = await client.post(RUNS, params={"wait": "1s"}, json={})
        ids = await run_ids(client)

    assert (answer.status_code, away) == (HTTPStatus.CREATED, [])
    assert ids == [answer.json()["run_id"], "r"]


async def test_a_change_of_a_server_that_ended_is_not_repeated(two: Site) -> None:
    async with two.program() as client:
        answers = []
        for ended in (False, True, True):
            if ended:
                unfinished = "UPDATE idempotency_key SET status = NULL, content = NULL, claimed_at = now() - interval '1 hour'"
                await two.history.database.pool.execute(unfinished)
            answers.append(await client.put("/api/v1/pools/p", json={"slots": 1}, headers={"idempotency-key": "k"}))

    assert [answer.status_code for answer in answers] == [HTTPStatus.OK, HTTPStatus.CONFLICT, HTTPStatus.CONFLICT]
    assert all("look whether it took effect" in answer.json()["detail"] for answer in answers[1:])


async def test_the_run_of_a_key_is_that_of_its_user_alone(two: Site) -> None:
    """The names and keys of two users may be the same text together."""
    async with two.program(user="a") as first, two.program(user="a b") as second:
        mine = await first.post(RUNS, json={}, headers={"idempotency-key": "b c"})
        theirs = await second.post(RUNS, json={}, headers={"idempotency-key": "c"})

    assert [mine.status_code, theirs.status_code] == [HTTPStatus.CREATED] * 2
    assert mine.json()["run_id"] != theirs.json()["run_id"]


async def test_an_event_of_a_key_is_that_of_its_user_alone(make_site: MakeSite, kafka: str, topic_prefix: str) -> None:
    """Source and id identify an event: another one of the same identity has no effect."""
    await topics.create(kafka, topic_prefix, 1, 1)
    body, key = {"uri": "lake://flights"}, {"idempotency-key": "k"}
    async with (
        make_site(kafka_servers=kafka, topic_prefix=topic_prefix) as site,
        site.program(user="anna") as anna,
        site.program(user="ben") as ben,
    ):
        answers = [await client.post("/api/v1/events", json=body, headers=key) for client in (anna, anna, ben)]
        await site.history.database.pool.execute("DELETE FROM idempotency_key")
        after_a_day = await anna.post("/api/v1/events", json=body, headers=key)

    assert [answer.status_code for answer in answers] == [HTTPStatus.CREATED] * 3, answers[0].text
    ids = [answer.json()["id"] for answer in (*answers, after_a_day)]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


async def test_a_run_that_is_deleted_while_its_caller_waits_was_started(two: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = anyio.Event()

    async def find(*args: Any) -> Any:
        waits.set()
        return await lookup.find_run(*args)

    async def delete() -> None:
        await waits.wait()
        await two.history.database.pool.execute("DELETE FROM dag_run WHERE run_id = 'gone'")

    async with two.program() as client, anyio.create_task_group() as group:
        await client.patch("/api/v1/dags/mine_a", json={"is_paused": True})
        group.start_soon(delete)
        monkeypatch.setattr(runs_api, "find_run", find)
        answer = await client.post(RUNS, params={"wait": "60s"}, json={"run_id": "gone"}, timeout=120)

    assert (answer.status_code, answer.json()["run_id"]) == (HTTPStatus.CREATED, "gone")


async def test_a_request_waits_for_the_end_of_its_run(two: Site) -> None:
    async with two.program() as client:
        answer = await client.post(RUNS, params={"wait": "1s"}, json={"run_id": "x"})
        too_long = await client.post(RUNS, params={"wait": "1h"}, json={})
        async with anyio.create_task_group() as group:
            group.start_soon(worked, two)
            ended = await client.post(RUNS, params={"wait": "60s"}, json={"run_id": "y"}, timeout=120)

    assert answer.json()["state"] in ("queued", "running")
    assert too_long.json()["detail"] == "a request waits for at most 60 seconds"
    assert ended.json()["state"] == "success"


async def worked(site: Site) -> None:
    while (await site.history.database.pool.fetchval("SELECT state FROM dag_run WHERE run_id = 'y'")) != "success":
        await site.history.clock("mine_a")
        await site.history.worked()
        await anyio.sleep(0.2)


async def test_a_change_of_what_has_changed_is_refused(two: Site) -> None:
    pool, backfills = "/api/v1/pools/a/b", "/api/v1/backfills"
    dates = {"start_date": "2013-01-01T00:00:00Z", "end_date": "2013-01-02T00:00:00Z"}
    async with two.program() as client:
        absent = {"if-none-match": "*"}
        first = await client.put(pool, json={"slots": 1}, headers=absent)
        second = await client.put(pool, json={"slots": 1}, headers=absent)
        stale = (await client.get(pool)).headers["etag"]
        both = await client.put(pool, json={"slots": 3}, headers={**absent, "if-match": stale})
        twice = await client.put(pool, json={"slots": 3}, headers=[("if-match", stale), ("if-match", stale)])
        any_ = await client.put(pool, json={"slots": 3}, headers={"if-match": "*"})
        odd = await client.put(pool, json={"slots": 3}, headers={"if-match": '"0_1"'})
        await client.put(pool, json={"slots": 2}, headers={"if-match": stale})
        refused = await client.put(pool, json={"slots": 3}, headers={"if-match": stale})
        await client.post(backfills, json={"dag_id": "mine_a", **dates})
        tag = (await client.get(f"{backfills}/1")).headers["etag"]
        changed = await client.patch(f"{backfills}/1", json={"limits": {"max_active_runs": 2}}, headers={"if-match": tag})
        again = await client.patch(f"{backfills}/1", json={"limits": {"max_active_runs": 3}}, headers={"if-match": tag})
        slots = (await client.get(pool)).json()["slots"]

    assert (first.status_code, second.status_code) == (HTTPStatus.OK, HTTPStatus.PRECONDITION_FAILED)
    assert (both.status_code, both.json()["detail"].rpartition(": ")[2]) == (HTTPStatus.BAD_REQUEST, "send one of them")
    assert twice.json()["detail"] == "If-Match: the request has 2 of this header; send one"
    assert any_.json()["detail"] == "If-Match: send the ETag of what you saw; * is none"
    assert (odd.status_code, "is no ETag of a pool" in odd.json()["detail"]) == (HTTPStatus.PRECONDITION_FAILED, True)
    assert (refused.status_code, slots) == (HTTPStatus.PRECONDITION_FAILED, 2)
    assert changed.status_code == HTTPStatus.OK, changed.text
    assert (again.status_code, again.json()["type"]) == (HTTPStatus.PRECONDITION_FAILED, "urn:tidegate:problem:stale")


async def test_a_change_that_compares_no_etag_refuses_one(two: Site) -> None:
    async with two.program() as client:
        tag = (await client.get("/api/v1/dags/mine_a")).headers["etag"]
        answer = await client.patch("/api/v1/dags/mine_a", json={"is_paused": True}, headers={"if-match": tag})
        absent = await client.patch("/api/v1/dags/mine_a", json={"is_paused": True}, headers={"if-none-match": "*"})
        dag = (await client.get("/api/v1/dags/mine_a")).json()["dag"]

    assert (answer.status_code, dag["is_paused"]) == (HTTPStatus.BAD_REQUEST, False)
    assert answer.json()["detail"] == "If-Match: this change compares no ETag; leave the header out"
    assert absent.json()["detail"] == "If-None-Match: leave the header out of this change"


async def test_an_unchanged_result_is_not_sent_again(two: Site) -> None:
    async with two.program() as client:
        tag = (await client.get("/api/v1/runs")).headers["etag"]
        same = await client.get("/api/v1/runs", headers={"if-none-match": tag})
        await client.post(RUNS, json={})
        other = await client.get("/api/v1/runs", headers={"if-none-match": tag})

    assert (same.status_code, same.content) == (HTTPStatus.NOT_MODIFIED, b"")
    assert other.status_code == HTTPStatus.OK


async def test_a_caller_above_the_rate_waits(make_site: MakeSite) -> None:
    async with make_site(web_requests_per_s=0.001) as site, site.program(user="a") as client, site.program(user="b") as other:
        answers = [await client.get("/api/v1/pools") for _ in range(2)]
        page = await client.get("/dags")
        of_another = await other.get("/api/v1/pools")

    assert [answer.status_code for answer in answers] == [HTTPStatus.OK, HTTPStatus.TOO_MANY_REQUESTS]
    assert 1 <= int(page.headers["retry-after"]) <= int(answers[1].headers["retry-after"]) <= 1000
    assert answers[1].json()["type"] == "urn:tidegate:problem:too-many"
    assert (page.status_code, "sends more than 0.001 requests a second" in page.text) == (HTTPStatus.TOO_MANY_REQUESTS, True)
    assert of_another.status_code == HTTPStatus.OK


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("GET", "/runs?limit=0", {}),
        ("GET", "/runs?since=2013-01-01T00:00:00", {}),
        ("GET", "/runs?since=0001-01-01T00:00:00Z", {}),
        ("GET", "/runs?backfill_id=99999999999999999999", {}),
        ("GET", "/runs?state=weird", {}),
        ("GET", "/runs?dag_id=%00", {}),
        ("GET", "/dags/%00", {}),
        ("GET", "/backfills?cursor=WyJkZWFkIGxldHRlcnMiLDFd", {}),
        ("POST", "/dags/mine_a/runs", {"conf": {"\0": 1}}),
        ("POST", "/dags/mine_a/runs", {"conf": []}),
        ("POST", "/dags/mine_a/runs", {"run_id": "a b"}),
        ("POST", "/dags/mine_a/runs", {"run_id": "latest"}),
        ("POST", "/dags/mine_a/runs", {"logical_date": "9999-12-31T00:00:00Z"}),
        ("POST", "/dags/mine_a/runs", {"colour": "red"}),
        ("POST", "/dags/mine_a/clear", {}),
        ("POST", "/backfills", {"dag_id": "mine_a"}),
        ("POST", "/backfills", {"dag_id": "mine_a", "logical_dates": ["2013-01-01T06:00:00Z"], "max_active_runs": 0}),
        ("PATCH", "/backfills/1", {"limits": {"colour": 1}}),
        ("PATCH", "/backfills/1", {"limits": {"max_active_runs": "x"}}),
        ("PATCH", "/backfills/1", {"limits": {"max_active_runs": None}}),
        ("PATCH", "/backfills/1", {"limits": {"max_active_runs": 1.5}}),
        ("PATCH", "/backfills/1", {"limits": {"priority": 10**18}}),
        ("PATCH", "/backfills/1", {"limits": {"pool": 1}}),
        ("PUT", "/pools/%07", {"slots": 1}),
        ("PUT", "/pools/x/queue", {"slots": 1}),
        ("PUT", "/pools/p", {"slots": 2**40}),
        ("POST", "/dead-letters/discard", {"ids": [1], "because": " "}),
        ("POST", "/dead-letters/replay", {"ids": []}),
    ],
)
async def test_bad_input_is_a_problem_and_changes_nothing(two: Site, method: str, path: str, content: Any) -> None:
    async with two.program() as client:
        before = await client.get("/api/v1/runs")
        answer = await client.request(method, f"/api/v1{path}", content=msgspec.json.encode(content))
        after = await client.get("/api/v1/runs")

    assert answer.status_code == HTTPStatus.BAD_REQUEST, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert before.content == after.content


async def test_a_backfill_that_cannot_be_is_refused_with_its_status(two: Site) -> None:
    dates = {"start_date": "2013-01-01T00:00:00Z", "end_date": "2013-01-02T00:00:00Z"}
    future = {"start_date": "2113-01-01T00:00:00Z", "end_date": "2113-01-02T00:00:00Z"}
    bodies = (
        {"dag_id": "none", **dates},
        {"dag_id": "mine_a", **future},
        {"dag_id": "mine_a", **dates},
        {"dag_id": "mine_a", **dates},
    )
    async with two.program() as client:
        created = [await client.post("/api/v1/backfills", json=body) for body in bodies]
        cancel = f"/api/v1/backfills/{created[2].json()['id']}/cancel"
        cancelled = [await client.post(cancel, json={}) for _ in range(2)]

    said = [(answer.status_code, answer.json()["type"].rpartition(":")[2]) for answer in created if answer.is_error]
    assert said == [(404, "not-found"), (409, "refused"), (409, "refused")]
    assert created[2].status_code == HTTPStatus.CREATED
    assert [answer.status_code for answer in cancelled] == [HTTPStatus.OK, HTTPStatus.CONFLICT]


@pytest.mark.parametrize(
    "path",
    [
        "/dags/none",
        "/dags/none/runs/latest",
        "/dags/mine_a/runs/none",
        "/dags/mine_a/runs/none/origin",
        "/dags/mine_a/runs/r/tasks/none/result",
        "/runs?dag_id=none",
        "/backfills/77",
        "/backfills/77/dates",
        "/pools/none",
        "/dead-letters/77",
    ],
)
async def test_an_unknown_object_is_not_found(two: Site, path: str) -> None:
    async with two.program(Role.VIEWER) as client:
        answer = await client.get(f"/api/v1{path}")

    assert (answer.status_code, answer.json()["type"]) == (HTTPStatus.NOT_FOUND, "urn:tidegate:problem:not-found"), answer.text


LOSS = "INSERT INTO commit_loss (timeline, since, until, found_by) VALUES ($1, now(), now(), 'a test')"

HALT = "INSERT INTO ingest_incident (partition, next_offset, log_start, log_end) VALUES ($1, 0, 5, 9)"
IGNORED = "INSERT INTO ignored_record (partition, what, records) VALUES ($1 || '/0', 'START', 1), ($1 || '/11', 'ABORT', 2)"
MAPPED, INSTANCES = 1 << 20, 1 << 14
TASK = """
INSERT INTO task_instance (dag_run_id, task_index, task_id, state)
SELECT id, $1, $2, CASE WHEN $1 < 0 THEN 'removed'::task_state ELSE 'none' END
FROM dag_run WHERE (dag_id, run_id) = ('mine_a', 'r')
"""
TASKS = "/dags/mine_a/runs/r/tasks"
LABELS = [("first", None), ("first", 0), ("first", 1), ("first", 2), ("second", None), ("second", 0)]
REMOVED = ("second", "gone", "gone", "gone")
"""Tasks that changes of the version removed from the run; it has `second` again."""

LISTS = (
    ("/runs", 7),
    ("/datasets", 6),
    ("/events?uri=lake://a", 5),
    ("/backfills", 3),
    ("/import-errors", 3),
    ("/import-errors?search=_2", 1),
    ("/losses", 3),
    ("/tokens", 4),
    ("/pools", 4),
    ("/daemons", 3),
    ("/topics/halted", 3),
    ("/topics/ignored", 6),
    ("/dags/mine_a/versions", 4),
    (TASKS, len(LABELS) + len(REMOVED)),
)
"""With the least number of their rows."""


async def test_every_list_of_many_rows_is_read_by_pages(two: Site) -> None:
    dates = {"start_date": "2013-01-01T00:00:00Z", "end_date": "2013-01-05T00:00:00Z"}
    async with two.program() as client:
        for number in range(5):
            await client.post(RUNS, json={"run_id": f"r{number}"})
            await two.history.updated("lake://a", str(number))
            await two.history.updated(f"lake://{number}", f"other-{number}")
        for month in range(1, 4):
            body = {"dag_id": "mine_a", **{name: at.replace("-01-", f"-0{month}-") for name, at in dates.items()}}
            assert (await client.post("/api/v1/backfills", json=body)).status_code == HTTPStatus.CREATED
            await two.history.broken_file(f"broken_{month}.py", "it cannot be parsed")
            await client.put(f"/api/v1/pools/pool_{month}", json={"slots": month})
            await two.token(user=f"user_{month}")
            await two.history.database.pool.execute(LOSS, str(month))
            await two.history.database.pool.execute(HALT, f"tidegate.dataset-updated/{month}")
            await two.history.database.pool.execute(IGNORED, f"openlineage-{month}")
            await two.history.daemon()
            await two.history.file(DAG.format(id="mine_a").replace("second", f"second_{month}"), "mine_a.py")
        await two.history.backfilled()
        await tasks_exist(two)
        for path, rows in LISTS:
            whole = (await client.get(f"/api/v1{path}")).json()["items"]
            assert len(whole) >= rows
            assert await by_pages(client, path) == whole
        await client.get("/api/v1/backfills/1/dates")
        whole = (await client.get("/api/v1/backfills/1/dates")).json()["items"]
        assert await by_pages(client, "/backfills/1/dates") == whole
        cursor = (await client.get("/api/v1/dags/mine_a/versions", params={"limit": 1})).json()["next_cursor"]
        of_another_dag = await client.get("/api/v1/dags/other/versions", params={"cursor": cursor})

    assert (of_another_dag.status_code, of_another_dag.json()["detail"]) == (HTTPStatus.BAD_REQUEST, NOT_OURS)


async def tasks_exist(site: Site) -> None:
    """The run of `mine_a` has tasks, instances of them in an order other than that of their indexes, and removed ones."""
    await site.history.database.pool.execute("DELETE FROM task_instance")
    for index, task_id in enumerate(("first", "second")):
        await site.history.database.pool.execute(TASK, index, task_id)
        for number in range(3 - 2 * index):
            await site.history.database.pool.execute(TASK, MAPPED + index * INSTANCES + number, task_id)
    for index, task_id in enumerate(REMOVED):
        await site.history.database.pool.execute(TASK, index - len(REMOVED), task_id)


async def test_tasks_are_listed_by_pages_in_their_order(two: Site) -> None:
    await tasks_exist(two)
    async with two.program() as client:
        tasks = await by_pages(client, TASKS, limit=1)
        removed = [(task_id, None) for task_id in REMOVED]
        assert [(task["task_id"], task["map_index"]) for task in tasks] == [*LABELS, *removed]
        of_added_again = await client.get(f"/api/v1{TASKS}/second/result")

        page = (await client.get(f"/api/v1{TASKS}", params={"limit": 3})).json()
        after = {"cursor": page["next_cursor"]}
        of_another_run = await client.get("/api/v1/dags/other/runs/r/tasks", params=after)
        await two.history.database.pool.execute("DELETE FROM task_instance WHERE task_index = $1", MAPPED + 1)
        lost = await client.get(f"/api/v1{TASKS}", params=after)

    assert of_added_again.json()["detail"] == "task 'second' of run 'r' has not succeeded: it is none"
    assert (of_another_run.status_code, of_another_run.json()["detail"]) == (HTTPStatus.BAD_REQUEST, NOT_OURS)
    detail = "cursor: the run has lost the task 'first' of the earlier page; leave it out to begin again"
    assert (lost.status_code, lost.json()["detail"]) == (HTTPStatus.BAD_REQUEST, detail)


async def test_next_runs_are_listed_by_pages(two: Site) -> None:
    url = httpx.URL("/api/v1/dags/mine_a/next-runs", params={"limit": 2})
    async with two.program() as client:
        for after in ({}, {"after": "2013-03-01T00:00:00Z"}):
            whole = (await client.get(url.copy_merge_params({"limit": 6, **after}))).json()["items"]
            rows: list[Any] = []
            cursor: dict[str, str] = {}
            while len(rows) < len(whole):
                page = (await client.get(url.copy_merge_params({**after, **cursor}))).json()
                rows += page["items"]
                cursor = {"cursor": page["next_cursor"]}
            assert rows == whole
            assert len({run["logical_date"] for run in rows}) == len(rows)
        of_another_dag = await client.get("/api/v1/dags/other/next-runs", params=cursor)

    assert (of_another_dag.status_code, of_another_dag.json()["detail"]) == (HTTPStatus.BAD_REQUEST, NOT_OURS)


EARLY, LATE = "1900-01-01T00:00:00Z", "2200-01-01T00:00:00Z"
ALL = filters_of(Listed())
NEXT = "next runs", filters_of(NextRuns(dag_id="mine_a"))
VERSIONS = "versions", filters_of(VersionsOf(dag_id="mine_a"))
OF_RUN = "tasks", filters_of(TaskList(dag_id="mine_a", run_id="r"))
FORGED = (
    ("/daemons", ("daemons", ALL, "0001-01-01T00:00:00+14:00", "00000000-0000-0000-0000-000000000000")),
    ("/daemons", ("daemons", ALL, "2013-01-01T00:00:00", "00000000-0000-0000-0000-000000000000")),
    ("/topics/ignored", ("ignored records", ALL, "topic")),
    ("/topics/halted", ("ignored records", ALL, "a", "b")),
    ("/dags/mine_a/next-runs", (*NEXT, *["9999-12-31T23:59:59Z"] * 4)),
    ("/dags/mine_a/next-runs", (*NEXT, LATE, EARLY, EARLY, EARLY)),
    ("/dags/mine_a/next-runs", (*NEXT, EARLY, LATE, LATE, LATE)),
    ("/dags/mine_a/next-runs", (*NEXT, EARLY, EARLY, LATE, EARLY)),
    ("/dags/mine_a/versions", (*VERSIONS, 2**40)),
    (TASKS, (*OF_RUN, "first", -1, 0)),
    (TASKS, (*OF_RUN, "first", None, 2**31)),
    ("/audit/verification", ("audit verification", "", 1, "abc", None)),
    ("/audit/verification", ("audit verification", "", 2**63, "", None)),
)


async def test_a_forged_cursor_is_refused(two: Site) -> None:
    async with two.program() as client:
        for path, key in FORGED:
            answer = await client.get(f"/api/v1{path}", params={"cursor": encode(*key)})
            assert (answer.status_code, answer.json()["detail"]) == (HTTPStatus.BAD_REQUEST, NOT_OURS), path


async def test_what_is_revoked_or_settled_is_returned(two: Site) -> None:
    await two.token(user="ben")
    await two.history.database.pool.execute(LOSS, "a")
    async with two.program() as client:
        loss = (await client.get("/api/v1/losses")).json()["items"][0]
        settled = await client.post(f"/api/v1/losses/{loss['id']}/settle", json={"because": "checked"})
        tokens = (await client.get("/api/v1/tokens")).json()["items"]
        (of_ben,) = [token["id"] for token in tokens if token["username"] == "ben"]
        revoked = (await client.delete(f"/api/v1/tokens/{of_ben}")).json()

    assert (settled.json()["id"], settled.json()["settled_because"]) == (loss["id"], "checked")
    assert (revoked["id"], revoked["username"]) == (of_ben, "ben")
    assert revoked["revoked_at"] is not None


async def by_pages(client: httpx.AsyncClient, path: str, *, limit: int = 2) -> list[Any]:
    rows: list[Any] = []
    url = httpx.URL(f"/api/v1{path}").copy_merge_params({"limit": limit})
    cursors: list[str] = []
    page = (await client.get(url)).json()
    rows += page["items"]
    while cursor := page["next_cursor"]:
        assert cursor not in cursors, rows
        cursors.append(cursor)
        page = (await client.get(url.copy_merge_params({"cursor": cursor}))).json()
        rows += page["items"]
    return rows


async def test_a_change_and_a_refusal_are_in_the_audit_log_and_a_dry_run_is_not(two: Site) -> None:
    async with two.program(user="anna") as client:
        pool = await client.put("/api/v1/pools/reports", json={"slots": 3})
        done = await client.patch("/api/v1/dags/mine_a", json={"is_paused": True})
        await client.post("/api/v1/dags/mine_a/clear", json={"run_id": "r", "dry_run": True})
        empty = await client.post("/api/v1/dags/mine_a/clear", json={"run_id": "", "dry_run": True})
        refused = await client.post("/api/v1/dags/mine_a/runs/none/cancel")

    assert (empty.status_code, "has no run ''" in empty.text) == (HTTPStatus.NOT_FOUND, True)
    query = "SELECT what, object, details FROM audit_log WHERE who = 'anna' ORDER BY id DESC LIMIT 3"
    rows = [(row["what"], row["object"], row["details"]) for row in await two.history.database.pool.fetch(query)]
    origin = [{"from": "127.0.0.1", "request_id": answer.headers["x-request-id"]} for answer in (done, refused, pool)]
    asked = {"request": "POST /dags/{dag_id}/runs/{run_id}/cancel", **origin[1]}
    assert refused.json()["detail"] == "DAG 'mine_a' has no run 'none'; `GET /runs?dag_id=mine_a` shows all"
    reason = "DAG 'mine_a' has no run 'none'; `tidegate runs list mine_a` shows all"
    refusal = {"would_have": "cancelled a run", "reason": reason, **asked}
    assert rows == [
        ("was refused", "DAG mine_a, run_id none", refusal),
        ("paused a DAG", "DAG mine_a", {"body": {"is_paused": True}, **origin[0]}),
        ("created a pool", "pool reports", {"slots": 3, "slots_before": None, **origin[2]}),
    ]


async def test_of_a_large_change_the_audit_log_has_what_fits(two: Site) -> None:
    request = {"run_id": "x", "conf": {"text": "x" * 8000}, "run_after": "2040-01-01T00:00:00Z"}
    async with two.program(user="anna") as client:
        await client.post(RUNS, json=request)

    query = "SELECT object, details FROM audit_log WHERE what = 'triggered a run' ORDER BY id DESC LIMIT 1"
    ((object_, details),) = await two.history.database.pool.fetch(query)
    assert object_ == "DAG mine_a, run_id x"
    assert details["body"] == {"logical_date": None, "run_after": "2040-01-01T00:00:00Z"}
    assert details["body_bytes"] > 8000


async def test_what_a_client_reads_after_its_change_is_of_the_primary(make_site: MakeSite) -> None:
    """The standby is away, which is as far behind as one can be."""
    dates = {"start_date": "2013-01-01T00:00:00Z", "end_date": "2013-01-02T00:00:00Z"}
    async with make_site(web_dsn="postgresql://tidegate@127.0.0.1:1/tidegate") as site, site.program() as client:
        await two_dags(site.history)
        await client.post(RUNS, json={"run_id": "x"})
        backfill = await client.post("/api/v1/backfills", json={"dag_id": "mine_a", **dates})
        paths = [f"{RUNS}/x/{part}" for part in ("state", "open-attempts", "progress", "tasks")]
        paths += [f"/api/v1/backfills/{backfill.json()['id']}"]
        codes = {path: (await client.get(path)).status_code for path in (*paths, f"{RUNS}/x")}

    assert codes == {**dict.fromkeys(paths, HTTPStatus.OK), f"{RUNS}/x": HTTPStatus.SERVICE_UNAVAILABLE}
