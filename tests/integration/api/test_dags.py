"""DAGs over the API."""

from http import HTTPStatus

import pytest

from tests.integration.web.conftest import Site
from tidegate.daemon.gateway.cursor import NOT_OURS
from tidegate.daemon.permissions import Role
from tidegate.schemas.queries.dag_pages import list_dags

EMPTY = 'from tidegate import Dag\nwith Dag("{id}") as dag:\n    dag.empty("done")\n'


@pytest.fixture
async def three(site: Site) -> Site:
    """Three DAGs: two of the name `daily`, and one other."""
    for id_ in ("daily_b", "hourly", "daily_a"):
        await site.history.file(EMPTY.format(id=id_), f"{id_}.py")
    return site


async def ids(site: Site, **params: object) -> list[str]:
    async with site.program(Role.VIEWER) as client:
        answer = await client.get("/api/v1/dags", params={name: str(value) for name, value in params.items()})
    assert answer.status_code == HTTPStatus.OK, answer.text
    return [row["dag"]["dag_id"] for row in answer.json()["items"]]


async def test_dags_are_listed_by_id(three: Site) -> None:
    assert await ids(three) == ["daily_a", "daily_b", "hourly"]
    assert await ids(three, search="AILY") == ["daily_a", "daily_b"]
    assert await ids(three, search="%") == []


async def test_a_cursor_continues_after_the_last_row(three: Site) -> None:
    async with three.program(Role.VIEWER) as client:
        first = (await client.get("/api/v1/dags", params={"limit": 2})).json()

    assert [row["dag"]["dag_id"] for row in first["items"]] == ["daily_a", "daily_b"]
    assert await ids(three, cursor=first["next_cursor"]) == ["hourly"]


@pytest.mark.parametrize(
    ("params", "detail"),
    [
        ({"limit": "many"}, "limit: expected `int`, got `str`"),
        ({"limit": "0"}, "limit: expected `int` >= 1"),
        ({"colour": "red"}, "`colour` is unknown; there is cursor, limit, search, tag or state"),
        ({"limit": ["1", "2"]}, "limit: it is given 2 times, in the path or the query; give it once"),
        ({"cursor": "hello"}, NOT_OURS),
        ({"cursor": "Wzdd"}, NOT_OURS),
    ],
)
async def test_a_wrong_parameter_is_named(site: Site, params: dict[str, str], detail: str) -> None:
    async with site.program() as client:
        answer = await client.get("/api/v1/dags", params=params)

    assert answer.status_code == HTTPStatus.BAD_REQUEST
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:tidegate:problem:invalid"
    assert answer.json()["detail"].lower() == detail.lower()


async def test_an_unknown_dag_is_a_problem(site: Site) -> None:
    async with site.program() as client:
        answer = await client.get("/api/v1/dags/none")

    assert answer.json() == {
        "type": "urn:tidegate:problem:not-found",
        "title": "Not Found",
        "status": 404,
        "detail": "there is no DAG 'none'; `GET /dags` shows all",
        "instance": "/api/v1/dags/none",
    }


async def test_a_dag_is_paused_by_the_users_name(three: Site) -> None:
    async with three.program(Role.EDITOR) as client:
        answer = await client.patch("/api/v1/dags/hourly", json={"is_paused": True})

    assert answer.json()["is_paused"] is True
    listed = await three.history.database.run(list_dags)
    assert [dag.is_paused for dag in listed] == [False, False, True]


async def test_a_change_needs_the_right_for_its_dag(three: Site) -> None:
    async with three.program(Role.VIEWER) as viewer, three.program(Role.EDITOR, dags=("daily_*",)) as editor:
        by_viewer = await viewer.patch("/api/v1/dags/hourly", json={"is_paused": True})
        by_editor = await editor.patch("/api/v1/dags/hourly", json={"is_paused": True})
        of_its_own = await editor.patch("/api/v1/dags/daily_a", json={"is_paused": True})

    assert by_viewer.json()["detail"] == "anna has the role viewer; this needs editor"
    assert by_editor.json()["detail"] == "anna may change the DAGs daily_*, not 'hourly'"
    assert of_its_own.status_code == HTTPStatus.OK
    refused = await three.history.database.pool.fetch("SELECT who, object FROM audit_log WHERE what = 'was refused'")
    assert [tuple(row) for row in refused] == [("anna", "DAG hourly")] * 2


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        ("{", "the body cannot be read: Input data was truncated"),
        ("[]", "Expected `object`, got `array`"),
        ('{"is_paused": 1}', "is_paused: expected `bool`, got `int`"),
        ("{}", "Object missing required field `is_paused`"),
    ],
)
async def test_a_wrong_body_is_a_problem(three: Site, content: str, detail: str) -> None:
    async with three.program() as client:
        answer = await client.patch("/api/v1/dags/hourly", content=content)

    assert (answer.status_code, answer.json()["detail"]) == (HTTPStatus.BAD_REQUEST, detail)


ASKED = (
    'from tidegate import Dag, Param\nwith Dag("asked", params={"a/b": Param(type="string"), "n": Param(1, minimum=1)}): pass\n'
)


async def test_a_conf_that_does_not_fit_is_named_value_by_value(site: Site) -> None:
    await site.history.file(ASKED, "asked.py")
    async with site.program() as client:
        run = await client.post("/api/v1/dags/asked/runs", json={"conf": {"a/b": 3, "n": 0}})
        dates = {"start_date": "2013-01-01T00:00:00Z", "end_date": "2013-01-02T00:00:00Z"}
        backfill = await client.post("/api/v1/backfills/preview", json={"dag_id": "asked", **dates, "dag_params": {"m": 0}})

    first = {"problem": "param 'a/b': 3 is not of type 'string'", "remedy": "write a value of the type string"}
    second = {"problem": "param 'n': 0 is less than the minimum of 1", "remedy": "write 1 or more"}
    assert run.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert run.json()["type"] == "urn:tidegate:problem:unfit"
    assert run.json()["errors"] == [
        {"pointer": "/conf/a~1b", **first},
        {"pointer": "/conf/n", **second},
    ]
    assert [error["pointer"] for error in backfill.json()["errors"]] == ["/dag_params/m", "/dag_params/a~1b"]
