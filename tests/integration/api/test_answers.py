"""What answers have beside their content: the address of what was made, and their encoding."""

from http import HTTPStatus
from typing import Any

from tests.integration.web.conftest import Site, csrf_of

BACKFILL = {"dag_id": "mine_a", "start_date": "2013-01-01T00:00:00Z", "end_date": "2013-01-02T00:00:00Z"}


async def test_what_was_made_has_an_address_also_for_a_repeat(two: Site) -> None:
    async with two.program() as client:
        run: dict[str, Any] = {
            "url": "/api/v1/dags/mine_a/runs",
            "json": {"run_id": "a+b:1"},
            "headers": {"idempotency-key": "k"},
        }
        made = [await client.post(**run), await client.post(**run), await client.post("/api/v1/backfills", json=BACKFILL)]
        found = [await client.get(answer.headers.get("location", "/")) for answer in made]

    assert [answer.status_code for answer in made] == [HTTPStatus.CREATED] * 3, [answer.text for answer in made]
    assert [answer.headers["location"] for answer in made] == [
        *["/api/v1/dags/mine_a/runs/a%2Bb%3A1"] * 2,
        "/api/v1/backfills/1",
    ]
    assert [answer.status_code for answer in found] == [HTTPStatus.OK] * 3


async def test_answers_are_compressed_for_clients_that_can_read_it(two: Site) -> None:
    paths = ("/dags", "/static/style.css", "/api/v1/openapi.json", "/api/v1/dags/mine_a")
    async with two.browser() as client:
        compressed = [await client.get(path) for path in paths]
        plain = [await client.get(path, headers={"accept-encoding": "identity"}) for path in paths]
        health = await client.get("/health")
        async with client.stream("GET", "/api/v1/stream") as stream:
            encoding = stream.headers.get("content-encoding")
        tokens = {csrf_of(await client.get("/dags")) for _ in range(3)}

    assert {answer.headers.get("content-encoding") for answer in compressed} == {"gzip"}
    assert {answer.headers["vary"] for answer in (*compressed, *plain)} == {"Accept-Encoding"}
    assert {answer.headers.get("content-encoding") for answer in (*plain, health)} == {None}
    assert [answer.content for answer in compressed[1:]] == [answer.content for answer in plain[1:]]
    assert encoding is None
    assert len(tokens) == 3
