"""Requests that no page and no client sends: each is refused as bad input, and none is a fault of the server."""

from base64 import urlsafe_b64encode
from http import HTTPStatus
from typing import Any

import httpx
import msgspec
import pytest

from tests.integration.api.conftest import two_dags
from tests.integration.web.conftest import Site, csrf_of
from tidegate.daemon.api.datasets import EventList
from tidegate.daemon.gateway.lists import Listed, filters_of

API = "/api/v1"
DATES = {"dag": "mine_a", "start": "2013-01-01", "end": "2013-01-02"}

PARAMS = """
from tidegate import Dag, Param

with Dag("params", params={"day": Param("2013-01-01", type="string"), "any": Param(None)}) as dag:
    dag.command("show", ["true"])
"""


ALL, OF_FLIGHTS = filters_of(Listed()), filters_of(EventList(uri="lake://flights"))


def cursor(*key: Any) -> str:
    return urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


NOT_BASE64_OF_JSON = ("%ff", "é", cursor(), urlsafe_b64encode(nested(20_000).encode()).decode().rstrip("="))

CURSORS = (
    *(f"/dags?cursor={given}" for given in (cursor("dags", ALL, "\0"), cursor("backfills", ALL, 1), *NOT_BASE64_OF_JSON)),
    f"/datasets?cursor={cursor('datasets', ALL, chr(0))}",
    f"/backfills?cursor={cursor('backfills', ALL, 2**70)}",
    f"/dataset?uri=lake://flights&cursor={cursor('events', OF_FLIGHTS, 2**70)}",
    f"/dags/daily_delays?before={cursor('grid', '', '2013-01-01T00:00:00Z', 2**70)}",
    f"{API}/dags?cursor={cursor('dags', ALL, chr(0))}",
    f"{API}/datasets?cursor={cursor('datasets', ALL, chr(0))}",
    f"{API}/runs?cursor={cursor('runs', ALL, chr(0), chr(0))}",
    f"{API}/events?uri=lake://flights&cursor={cursor('events', OF_FLIGHTS, 2**70)}",
)


async def test_a_cursor_that_no_list_gave_is_refused(site: Site) -> None:
    await site.history.file()
    await site.history.updated("lake://flights")
    async with site.browser() as client:
        answers = {address: (await client.get(address)).status_code for address in CURSORS}

    assert answers == dict.fromkeys(CURSORS, HTTPStatus.BAD_REQUEST)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/dags/daily_delays?at=9999-12-31", HTTPStatus.BAD_REQUEST),
        ("/dags/daily_delays?at=0001-01-01", HTTPStatus.BAD_REQUEST),
        ("/backfills/1?day=9999-12-31", HTTPStatus.BAD_REQUEST),
        (f"{API}/dags/daily_delays/runs/latest/tasks/join[{10**30}]/why-not", HTTPStatus.NOT_FOUND),
        (f"{API}/dags/daily_delays/runs/latest/tasks/join[²]/why-not", HTTPStatus.NOT_FOUND),
        (f"{API}/dags/daily_delays/runs/latest/tasks/none/log", HTTPStatus.NOT_FOUND),
    ],
)
async def test_an_address_outside_all_ranges(site: Site, path: str, status: HTTPStatus) -> None:
    await site.history.file()
    await site.history.run()
    async with site.browser() as client:
        answer = await client.get(path)

    assert answer.status_code == status, answer.text


BODIES: tuple[bytes, ...] = (
    '{"conf": {"n": "é"}}'.encode("latin-1"),
    b'{"conf": {"n": "\\u0000"}}',
    b'{"conf": {"n": NaN}}',
    b'{"conf": {"n": 1e400}}',
    b'{"conf": {"n": ' + b"9" * 5_000 + b"}}",
    *(b'{"conf": {"n": ' + nested(levels).encode() + b"}}" for levels in (64, 480, 600, 100_000)),
    b'{"run_id": ".."}',
    b'{"run_id": "."}',
    b"null",
)


async def test_a_body_that_cannot_be_stored_starts_no_run(site: Site) -> None:
    await two_dags(site.history)
    async with site.program() as client:
        answers = [await client.post(f"{API}/dags/mine_a/runs", content=body) for body in BODIES]
        listed = (await client.get(f"{API}/runs")).json()

    assert [answer.status_code for answer in answers] == [HTTPStatus.BAD_REQUEST] * len(BODIES)
    assert listed["items"] == []


FORMS: tuple[tuple[str, dict[str, str]], ...] = (
    ("/dags/params/trigger", {"param.day": "a\0b"}),
    ("/dags/params/trigger", {"param.any": '"\\u0000"'}),
    ("/dags/params/trigger", {"param.any": nested(500)}),
    ("/dags/params/trigger", {"run_id": "\0"}),
    ("/backfills/new", {**DATES, "dag": "\0"}),
    ("/backfills/new", {**DATES, "pool": "\0"}),
    ("/backfills/new", {**DATES, "conf": '{"a": "\\u0000"}'}),
    ("/backfills/new", {**DATES, "conf": f'{{"a": {nested(500)}}}'}),
    ("/backfills/1/change", {"shown": "{}", "pool": "\0"}),
    ("/backfills/1/change", {"shown": nested(100_000)}),
)


async def test_a_form_whose_texts_cannot_be_stored_changes_nothing(site: Site) -> None:
    await two_dags(site.history)
    await site.history.file(PARAMS, "params.py")
    other = {"dag_id": "other", "start_date": "2013-01-01T00:00:00Z", "end_date": "2013-01-02T00:00:00Z"}
    async with site.browser() as client:
        csrf = csrf_of(await client.get("/dags"))
        await client.post(f"{API}/backfills", json=other, headers={"x-csrf-token": csrf})
        answers = [await client.post(path, data={"csrf": csrf, **fields}) for path, fields in FORMS]

        assert [answer.status_code for answer in answers] == [HTTPStatus.BAD_REQUEST] * len(FORMS)
        assert await counts(client) == (0, 1)


async def counts(client: httpx.AsyncClient) -> tuple[int, int]:
    """The number of runs and of backfills."""
    runs, backfills = [(await client.get(f"{API}/{name}")).json()["items"] for name in ("runs", "backfills")]
    return len(runs), len(backfills)
