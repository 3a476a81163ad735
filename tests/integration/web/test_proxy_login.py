"""Login by a reverse proxy that names the user."""

from http import HTTPStatus

import pytest

from tests.integration.web.conftest import MakeSite, csrf_of
from tidegate.daemon.gateway import service

HEADER = "x-forwarded-user"
ROLES = '{"*": "viewer", "data": "operator"}'
PROXY = {"proxy_user_header": HEADER, "proxy_groups_header": "x-groups", "login_roles": ROLES}
ENTRIES = "SELECT who, what FROM audit_log ORDER BY id"


async def test_a_user_that_the_proxy_names_has_a_session_of_its_own(make_site: MakeSite) -> None:
    named = {HEADER: "anna"}
    async with (
        make_site(**PROXY, proxy_addresses="127.0.0.0/8") as site,
        site.anonymous(follow_redirects=True) as client,
        site.anonymous() as second,
    ):
        page = await client.get("/dags?search=a", headers=named)
        forged = await client.post("/logout", headers=named, data={"csrf": "wrong"})
        promoted = await client.get("/dags", headers={**named, "x-groups": "data"})
        await second.get("/login", headers=named)
        demoted = await client.get("/dags")
        await site.history.database.pool.execute("UPDATE credential SET groups = NULL WHERE username = 'anna'")
        await client.get("/dags", headers=named)
        of_former_version = await second.get("/dags")
        other = await client.get("/dags", headers={HEADER: "ben"})
        api = await client.get("/api/v1/dags", headers={HEADER: "cleo"})
        out = await client.post("/logout", headers={HEADER: "ben"}, data={"csrf": csrf_of(other)})
        unnamed = await client.get("/dags")
        entries = [tuple(row) for row in await site.history.database.pool.fetch(ENTRIES)]

    assert (page.url.path, page.url.query, "anna, viewer" in page.text) == ("/dags", b"search=a", True)
    assert forged.status_code == HTTPStatus.FORBIDDEN
    assert "anna, operator" in promoted.text
    assert "anna, viewer" in demoted.text
    assert of_former_version.headers["location"].startswith("/login")
    assert "ben, viewer" in other.text
    assert api.status_code == HTTPStatus.UNAUTHORIZED
    assert (out.url.path, unnamed.url.path) == ("/login", "/login")
    assert entries == [
        ("anna", "logged in"),
        ("anna", "was refused"),
        *[("anna", "logged in")] * 3,
        ("ben", "logged in"),
        ("ben", "logged out"),
    ]


async def test_failed_logins_of_others_keep_no_session_of_a_user_without_a_role(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "FAILED_LOGINS_PER_S", 0.01)
    settings = {**PROXY, "proxy_addresses": "127.0.0.0/8", "login_roles": '{"data": "operator"}'}
    async with make_site(**settings) as site, site.anonymous(follow_redirects=True) as client, site.anonymous() as others:
        await client.get("/dags", headers={HEADER: "anna", "x-groups": "data"})
        wrong = [(await others.post("/login", data={"token": "wrong"})).status_code for _ in range(2)]
        before = await client.get("/dags")
        refused = [(await others.get("/login", headers={HEADER: "anna"})).status_code for _ in range(2)]
        after = await client.get("/dags")
        entries = [tuple(row) for row in await site.history.database.pool.fetch(ENTRIES)]

    assert (wrong, refused) == ([401, 429], [403, 429])
    assert [page.url.path for page in (before, after)] == ["/dags", "/login"]
    assert entries == [("anna", "logged in"), ("unknown", "could not log in"), ("anna", "could not log in")]


async def test_a_password_that_the_proxy_passes_on_is_not_read(make_site: MakeSite) -> None:
    basic, token = ({HEADER: "anna", "authorization": f"{scheme} YTpi"} for scheme in ("Basic", "Bearer"))
    settings = {**PROXY, "proxy_addresses": "127.0.0.0/8", "web_requests_per_s": 0.2}
    async with make_site(**settings) as site:
        async with site.anonymous(follow_redirects=True) as client:
            page = await client.get("/dags", headers=basic)
        async with site.anonymous(follow_redirects=True) as client:
            foreign = await client.get("/dags", headers={**token, HEADER: "ben"})
            wrong = await client.get("/api/v1/dags", headers={"authorization": "Bearer YTpi"})
        async with site.anonymous() as client:
            without_cookies = await client.get("/login", headers={HEADER: "anna"})
        entries = [tuple(row) for row in await site.history.database.pool.fetch(ENTRIES)]

    assert (page.status_code, "anna, viewer" in page.text) == (HTTPStatus.OK, True)
    assert (foreign.status_code, "the proxy must remove it" in foreign.text) == (HTTPStatus.FORBIDDEN, True)
    assert wrong.status_code == HTTPStatus.UNAUTHORIZED
    assert without_cookies.status_code == HTTPStatus.TOO_MANY_REQUESTS
    assert entries == [("anna", "logged in")]


async def test_another_address_names_no_user(make_site: MakeSite) -> None:
    async with make_site(**PROXY, proxy_addresses="10.0.0.0/8") as site, site.browser() as client:
        with_session = await client.get("/dags", headers={HEADER: "anna"})
        without = await client.get("/login", headers={HEADER: "anna"})
        as_before = await client.get("/dags")
        entries = [tuple(row) for row in await site.history.database.pool.fetch(ENTRIES)]

    assert [with_session.status_code, without.status_code, as_before.status_code] == [403, 403, 200]
    assert "TIDEGATE_PROXY_ADDRESSES does not name it" in without.text
    assert entries == [("anna", "logged in"), ("unknown", "could not log in")]
