"""Who calls: tokens, sessions, login links; and what stops other sites."""

from collections.abc import AsyncIterator
from http import HTTPStatus

import anyio
import httpx
import pytest

from tests.integration.web.conftest import MakeSite, Site, csrf_of
from tidegate.daemon.gateway import service
from tidegate.daemon.identity import credentials
from tidegate.daemon.identity.secret import is_csrf_token
from tidegate.daemon.permissions import Caller, Role
from tidegate.schemas.queries.credentials import list_tokens, revoke


async def test_the_api_answers_only_with_a_token(site: Site) -> None:
    async with site.anonymous() as client:
        without = await client.get("/api/v1/dags")
        wrong = await client.get("/api/v1/dags", headers={"authorization": "Bearer tdg_wrong"})
        basic = await client.get("/api/v1/dags", headers={"authorization": "Basic YTpi"})

    for answer in (without, wrong, basic):
        assert answer.status_code == HTTPStatus.UNAUTHORIZED
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["type"] == "urn:tidegate:problem:unauthenticated"


async def test_wrong_tokens_of_an_address_have_a_limit(make_site: MakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A right one has none: all programs behind a proxy have its address."""
    monkeypatch.setattr(service, "FAILED_TOKENS_PER_S", 0.01)
    async with make_site() as site, site.anonymous() as client:
        wrong, right = ({"authorization": f"Bearer {token}"} for token in ("tdg_wrong", await site.token()))
        first, refused, page = [await client.get(path, headers=wrong) for path in ("/api/v1/dags", "/api/v1/dags", "/dags")]
        others = [await client.get(path, headers=right) for path in ("/api/v1/dags", "/dags")]

    statuses = [answer.status_code for answer in (first, refused, page, *others)]
    assert statuses == [HTTPStatus.UNAUTHORIZED, *[HTTPStatus.TOO_MANY_REQUESTS] * 2, *[HTTPStatus.OK] * 2]
    assert int(refused.headers["retry-after"]) > 1
    assert "127.0.0.1 sends more than 0.01 requests with a wrong token a second" in refused.json()["detail"]


async def test_a_token_ends_with_its_time_and_when_it_is_revoked(site: Site) -> None:
    expired = await site.token(life_s=0)
    token = await site.token()
    async with site.anonymous() as client:
        assert (await client.get("/api/v1/dags", headers={"authorization": f"Bearer {expired}"})).status_code == 401
        assert (await client.get("/api/v1/dags", headers={"authorization": f"Bearer {token}"})).status_code == 200
        for row in await site.history.database.run(list_tokens):
            await site.history.database.run(revoke, row.id)
        assert (await client.get("/api/v1/dags", headers={"authorization": f"Bearer {token}"})).status_code == 401


async def test_a_secret_is_not_stored(site: Site) -> None:
    token = await site.token()

    stored = await site.history.database.pool.fetchval("SELECT string_agg(credential::text, ',') FROM credential")

    assert token not in stored
    assert token.encode().hex() not in stored


async def test_a_browser_without_a_session_logs_in_first(site: Site) -> None:
    async with site.anonymous(follow_redirects=True) as client:
        login = await client.get("/dags?search=a")
        page = await client.post("/login", data={"token": await site.token(), "next": "/dags?search=a"})

    assert login.url.path == "/login"
    assert 'name="next" value="/dags?search=a"' in login.text
    assert (page.status_code, page.url.path, page.url.query) == (HTTPStatus.OK, "/dags", b"search=a")


@pytest.mark.parametrize("next_", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"])
async def test_a_login_leads_to_no_other_site(site: Site, next_: str) -> None:
    async with site.anonymous() as client:
        answer = await client.post("/login", data={"token": await site.token(), "next": next_})

    assert answer.headers["location"] == "/"


async def test_a_session_ends_with_its_token(site: Site) -> None:
    async with site.browser() as client:
        for row in await site.history.database.run(list_tokens):
            await site.history.database.run(revoke, row.id)
        answer, change = await client.get("/dags"), await client.post("/dags/a/pause")
        async with site.anonymous(follow_redirects=True) as other:
            first = await other.get("/dags")

    assert answer.url.path == "/login"
    assert ("Your session has ended" in answer.text, "Your session has ended" in first.text) == (True, False)
    assert (change.status_code, "and the change was not made" in change.text) == (HTTPStatus.UNAUTHORIZED, True)


async def test_an_admin_ends_the_sessions_of_a_user(site: Site) -> None:
    async with site.browser(user="anna") as anna, site.browser(user="ben") as ben, site.program(user="cleo") as admin:
        ended = await admin.delete("/api/v1/users/anna/sessions")
        pages = [await client.get("/dags") for client in (anna, ben)]

    assert ended.json() == {"username": "anna", "sessions": 1}
    assert [page.url.path for page in pages] == ["/login", "/dags"]
    entry = "SELECT object, details ->> 'sessions' FROM audit_log WHERE who = 'cleo' AND what = 'ended sessions'"
    assert [tuple(row) for row in await site.history.database.pool.fetch(entry)] == [("user anna", "1")]


async def test_a_log_out_ends_the_session(site: Site) -> None:
    async with site.browser() as client:
        cookies = dict(client.cookies)
        csrf = csrf_of(await client.get("/dags"))
        refused = await client.post("/logout", data={"csrf": "wrong"})
        await client.post("/logout", data={"csrf": csrf})
        async with site.anonymous(cookies=cookies) as thief:
            answer = await thief.get("/dags")

    assert refused.status_code == HTTPStatus.FORBIDDEN
    assert answer.headers["location"].startswith("/login")
    entries = "SELECT what, object, details ->> 'would_have' FROM audit_log ORDER BY id"
    (_, session, _), *others = map(tuple, await site.history.database.pool.fetch(entries))
    assert others == [("was refused", session, "logged out"), ("logged out", session, None)]


async def test_a_link_begins_one_session(site: Site) -> None:
    caller = Caller("anna", Role.OPERATOR)
    link = await site.history.database.run(credentials.issue, "link", caller, 60.0, "the test")
    async with site.anonymous(follow_redirects=True) as first, site.anonymous() as second:
        scanned = await second.head("/login", params={"link": link.secret})
        page = await first.get("/login", params={"link": link.secret})
        again = await second.get("/login", params={"link": link.secret})

    assert (scanned.status_code, "set-cookie" in scanned.headers) == (HTTPStatus.OK, False)
    assert "anna, operator" in page.text
    assert again.status_code == HTTPStatus.UNAUTHORIZED
    assert "was used before" in again.text


async def test_a_session_changes_nothing_without_its_csrf_token(site: Site) -> None:
    await site.history.file()
    async with site.browser() as client:
        path, change = "/api/v1/dags/daily_delays", {"is_paused": True}
        without = await client.patch(path, json=change)
        with_it = await client.patch(path, json=change, headers={"x-csrf-token": csrf_of(await client.get("/dags"))})

        form = await client.post("/dags/daily_delays/pause", data={"is_paused": "true"})

    assert without.json()["type"] == "urn:tidegate:problem:csrf"
    assert form.status_code == HTTPStatus.FORBIDDEN
    refused = "SELECT details ->> 'request' FROM audit_log WHERE what = 'was refused' AND object = 'DAG daily_delays' ORDER BY id"
    assert [row[0] for row in await site.history.database.pool.fetch(refused)] == [
        "PATCH /dags/{dag_id}",
        "POST /dags/{dag_id}/pause",
    ]
    assert with_it.status_code == HTTPStatus.OK


async def test_users_who_read_a_page_at_once_each_see_their_own_actions(site: Site) -> None:
    """They share what is read of the database."""
    await site.history.file()
    async with site.browser(Role.VIEWER, user="vera") as viewer, site.browser(Role.EDITOR, user="emil") as editor:
        browsers = [viewer, editor] * 6
        pages: list[str] = [""] * len(browsers)

        async def read(number: int) -> None:
            pages[number] = (await browsers[number].get("/dags/daily_delays")).text

        async with anyio.create_task_group() as tg:
            for number in range(len(browsers)):
                tg.start_soon(read, number)

    found = [("vera, viewer" in text, "emil, editor" in text, "daily_delays/trigger" in text) for text in pages]
    assert found == [(True, False, False), (False, True, True)] * 6
    secrets = [str(client.cookies[f"tidegate_session_{client.base_url.port}"]) for client in browsers]
    tokens = [csrf_of(httpx.Response(200, text=text)) for text in pages]
    assert all(is_csrf_token(secret, token) for secret, token in zip(secrets, tokens, strict=True))


async def test_a_cookie_is_safe(site: Site, make_site: MakeSite) -> None:
    async with site.anonymous() as client:
        plain = (await client.post("/login", data={"token": await site.token()})).headers["set-cookie"]
    async with make_site(web_hosts="tide.example") as public, public.anonymous(headers={"host": "tide.example"}) as client:
        secure = (await client.post("/login", data={"token": await public.token()})).headers["set-cookie"]

    assert "HttpOnly" in plain
    assert "SameSite=lax" in plain
    assert "Secure" not in plain
    assert "Secure" in secure


async def test_a_login_from_another_site_is_refused(site: Site) -> None:
    """A browser tells the site by `Sec-Fetch-Site`, and over plain HTTP by `Origin` alone; a program tells none."""
    own = f"http://127.0.0.1:{httpx.URL(site.address).port}"
    senders: tuple[tuple[dict[str, str], HTTPStatus], ...] = (
        ({"sec-fetch-site": "cross-site"}, HTTPStatus.FORBIDDEN),
        ({"sec-fetch-site": "cross-site", "origin": own}, HTTPStatus.FORBIDDEN),
        ({"origin": "http://evil.example"}, HTTPStatus.FORBIDDEN),
        ({"origin": "null"}, HTTPStatus.FORBIDDEN),
        ({"origin": "http://[evil"}, HTTPStatus.FORBIDDEN),
        ({"origin": own}, HTTPStatus.SEE_OTHER),
        ({"sec-fetch-site": "same-origin", "origin": "https://tide.example"}, HTTPStatus.SEE_OTHER),
        ({}, HTTPStatus.SEE_OTHER),
    )
    async with site.anonymous() as client:
        token = await site.token()
        answers = [(await client.post("/login", data={"token": token}, headers=headers)).status_code for headers, _ in senders]

    assert answers == [status for _, status in senders]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", ""])
async def test_only_known_hosts_are_served(site: Site, host: str) -> None:
    async with site.anonymous(headers={"host": host}) as client:
        answer = await client.get("/login")

    assert answer.status_code == HTTPStatus.BAD_REQUEST
    assert "TIDEGATE_WEB_HOSTS" in answer.text or not host


@pytest.mark.parametrize(
    "named", ["Tide.Example", "tide.example:8443", "other.example, tide.example.", "[2001:db8::1], tide.example"]
)
async def test_a_host_of_the_setting_is_served(make_site: MakeSite, named: str) -> None:
    async with make_site(web_hosts=named) as site, site.anonymous(headers={"host": "tide.example:443"}) as client:
        answer = await client.get("/login")

    assert answer.status_code == HTTPStatus.OK, answer.text


async def test_a_large_body_is_refused(site: Site) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 50_000

    async with site.program() as client:
        known = await client.patch("/api/v1/dags/a", content=b"x" * 2_000_000)
        streamed = await client.patch("/api/v1/dags/a", content=chunks())

    assert [known.status_code, streamed.status_code] == [HTTPStatus.REQUEST_ENTITY_TOO_LARGE] * 2


async def test_pages_are_not_kept_and_files_are(site: Site) -> None:
    async with site.browser() as client:
        page = await client.get("/dags")
        style = await client.get(page.text.split('rel="stylesheet" href="')[1].split('"')[0])
        of_other_versions = [await client.get(f"/static/style.css{query}") for query in ("", "?v=000000000000")]

    assert [answer.headers["cache-control"] for answer in (page, *of_other_versions)] == ["no-store"] * 3
    assert (style.status_code, style.headers["cache-control"]) == (HTTPStatus.OK, "public, max-age=31536000, immutable")


async def test_every_answer_has_the_headers_that_protect_it(site: Site) -> None:
    async with site.program() as client:
        for path in ("/dags", "/login", "/api/v1/dags", "/api/v1/none", "/none", "/static/style.css"):
            answer = await client.get(path)
            policy = answer.headers["content-security-policy"]
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
