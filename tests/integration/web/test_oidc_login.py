"""Login by OpenID Connect at a real provider, and each way in which a provider, a token or a browser can be wrong."""

import re
import time
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc.jwk import ECKey

from tests.integration.web.conftest import MakeSite, Site
from tests.oidc_provider import CLIENT, SECRET, OidcProvider, new_key, oidc_provider
from tidegate.daemon.gateway import service
from tidegate.daemon.identity import login_attempt
from tidegate.daemon.standalone.web import NO_TLS
from tidegate.daemon.web.pages import login_oidc

ROLES = '{"data": {"role": "editor", "dags": ["daily_*"]}, "platform": "admin"}'
ENTRIES = "SELECT who, what, details ->> 'by' AS by, details ->> 'reason' AS reason FROM audit_log ORDER BY id"


@pytest.fixture
async def provider() -> AsyncIterator[OidcProvider]:
    async with oidc_provider() as made:
        yield made


@pytest.fixture
async def site(make_site: MakeSite, provider: OidcProvider) -> AsyncIterator[Site]:
    login = {"oidc_issuer": provider.issuer, "oidc_client_id": CLIENT, "oidc_client_secret": SECRET, "login_roles": ROLES}
    async with make_site(**login) as made:
        yield made


async def log_in(site: Site, next_: str = "/dags") -> httpx.Response:
    """The page that a new browser ends at."""
    async with site.anonymous(follow_redirects=True, verify=False) as client:
        return await client.get("/login/oidc", params={"next": next_})


async def test_a_user_of_the_provider_has_the_rights_of_its_groups(site: Site, provider: OidcProvider) -> None:
    async with site.anonymous(follow_redirects=True) as client:
        login = await client.get("/dags?search=a")
        (link,) = re.findall(r'href="(/login/oidc[^"]*)"', login.text)
        page = await client.get(link)
        refused = await client.get("/audit")

    assert (page.status_code, page.url.path, page.url.query) == (HTTPStatus.OK, "/dags", b"search=a")
    assert "anna, editor" in page.text
    assert refused.status_code == HTTPStatus.FORBIDDEN
    (session,) = await site.history.database.pool.fetch("SELECT username, role, dags, parent_id FROM credential")
    assert tuple(session) == ("anna", "editor", ["daily_*"], None)
    entry, _ = await site.history.database.pool.fetch(ENTRIES)
    assert tuple(entry) == ("anna", "logged in", "OpenID Connect", None)


async def test_keys_may_be_replaced_and_groups_change_at_any_time(site: Site, provider: OidcProvider) -> None:
    await log_in(site)
    provider.rotate()
    provider.claims["groups"] = ["platform", "data"]

    assert "anna, admin" in (await log_in(site)).text


async def test_sessions_follow_the_roles_of_the_setting(make_site: MakeSite, provider: OidcProvider) -> None:
    login = {"oidc_issuer": provider.issuer, "oidc_client_id": CLIENT, "oidc_client_secret": SECRET}
    async with make_site(**login, login_roles=ROLES) as site, site.anonymous(follow_redirects=True) as client:
        before = await client.get("/login/oidc")
        (secret,) = client.cookies.values()
    pages = []
    for roles in ('{"data": "viewer"}', '{"platform": "admin"}', ROLES):
        async with make_site(**login, login_roles=roles) as site:
            session = {"cookie": f"tidegate_session_{httpx.URL(site.address).port}={secret}"}
            async with site.anonymous(headers=session) as client:
                pages.append(await client.get("/dags"))

    fewer, none, again = pages
    assert "anna, editor" in before.text
    assert (fewer.status_code, "anna, viewer" in fewer.text) == (HTTPStatus.OK, True)
    assert (none.status_code, none.headers["location"].partition("?")[0]) == (HTTPStatus.SEE_OTHER, "/login")
    assert "anna, editor" in again.text


async def test_a_login_with_other_groups_counts_for_the_sessions_of_its_user(site: Site, provider: OidcProvider) -> None:
    async with site.anonymous(follow_redirects=True) as first, site.browser(user="anna") as by_token:
        await first.get("/login/oidc")
        provider.claims["groups"] = ["platform"]
        await log_in(site)
        promoted = await first.get("/dags")
        provider.claims["groups"] = ["guests"]
        refused = await log_in(site)
        ended, other = await first.get("/dags"), await by_token.get("/dags")

    assert "anna, admin" in promoted.text
    assert (refused.status_code, 'aria-label="Pages"' in refused.text) == (HTTPStatus.FORBIDDEN, False)
    assert (ended.url.path, other.url.path) == ("/login", "/dags")


async def test_groups_that_only_the_userinfo_endpoint_tells_count(site: Site, provider: OidcProvider) -> None:
    del provider.claims["groups"]
    provider.told["groups"] = "data"
    page = await log_in(site)
    provider.told["sub"] = "u-2"
    other = await log_in(site)

    assert "anna, editor" in page.text
    assert other.status_code == HTTPStatus.FORBIDDEN
    assert "for another user" in other.text


async def test_a_token_that_is_not_for_this_login_is_refused(site: Site, provider: OidcProvider) -> None:
    lies: list[tuple[Mapping[str, Any], str]] = [
        ({"nonce": "of another login"}, "nonce"),
        ({"aud": "another program"}, "TIDEGATE_OIDC_CLIENT_ID is the name"),
        ({"aud": [CLIENT, "another program"]}, "another program asked for it"),
        ({"azp": "another program"}, "another program asked for it"),
        ({"iss": "https://another.example"}, "iss"),
        ({"exp": int(time.time()) - 120}, "clocks of the provider and of this host differ"),
        ({"iat": int(time.time()) + 3600}, "clocks of the provider and of this host differ"),
        ({"sub": None}, "sub"),
        ({"preferred_username": "two words"}, "cannot be used"),
        ({"preferred_username": None}, "TIDEGATE_OIDC_USERNAME_CLAIM"),
        ({"groups": ["guests"]}, "anna has no role here: TIDEGATE_LOGIN_ROLES gives none to its groups guests"),
    ]
    for lie, expected in lies:
        provider.lies = dict(lie)
        page = await log_in(site)
        assert (page.status_code, expected in page.text) == (HTTPStatus.FORBIDDEN, True), (lie, page.text)

    assert await site.history.database.pool.fetchval("SELECT count(*) FROM credential") == 0
    entries = await site.history.database.pool.fetch(ENTRIES)
    assert [entry["what"] for entry in entries] == ["could not log in"] * len(lies)
    assert [entry["who"] for entry in entries] == [*["unknown"] * (len(lies) - 1), "anna"]


async def test_a_token_of_another_key_is_refused(site: Site, provider: OidcProvider) -> None:
    provider.signs_with = new_key()
    unknown = await log_in(site)
    provider.publishes = [ECKey.generate_key("P-256", {"kid": str(provider.signs_with.kid)})]
    forged = await log_in(site)
    provider.publishes = []
    without = await log_in(site)

    assert [page.status_code for page in (unknown, forged, without)] == [HTTPStatus.FORBIDDEN] * 3
    assert "bad_signature" in forged.text


async def test_a_provider_that_says_no_or_is_away_is_a_page_that_says_so(site: Site, provider: OidcProvider) -> None:
    provider.denies = "<b>not today</b>"
    denied = await log_in(site)
    provider.denies, provider.refuses = "", "the code is old"
    refused = await log_in(site)
    provider.is_away = True
    half, again = await log_in(site, "/dags?search=a"), await log_in(site)
    provider.is_away, provider.refuses = False, ""
    await log_in(site)
    provider.is_away = True
    later = await log_in(site)

    assert (denied.status_code, "access_denied &lt;b&gt;not today" in denied.text) == (HTTPStatus.FORBIDDEN, True)
    assert (refused.status_code, "the code is old" in refused.text) == (HTTPStatus.FORBIDDEN, True)
    assert [page.status_code for page in (half, again, later)] == [HTTPStatus.SERVICE_UNAVAILABLE] * 3
    assert [entry["event"] for entry in site.logged].count("oidc_provider_away") == 2
    assert "the login provider is not available" in half.text
    assert ('href="/login/oidc?next=%2Fdags%3Fsearch%3Da"' in half.text, "Load it again" in half.text) == (True, False)


async def test_a_provider_without_id_tokens_is_refused(site: Site, provider: OidcProvider) -> None:
    provider.gives_no_id = True
    page = await log_in(site)

    assert (page.status_code, "the provider gave no id_token" in page.text) == (HTTPStatus.FORBIDDEN, True)


async def test_a_malformed_address_of_the_provider_is_named(site: Site, provider: OidcProvider) -> None:
    provider.keys_at = "https://keys:none/"
    page = await log_in(site)

    assert (page.status_code, "is not available at" in page.text) == (HTTPStatus.SERVICE_UNAVAILABLE, True)
    assert "https://keys:none/" in page.text


async def test_a_secret_that_cannot_be_read_is_a_line_of_the_log(
    make_site: MakeSite, provider: OidcProvider, tmp_path: Path
) -> None:
    login = {"oidc_issuer": provider.issuer, "oidc_client_id": CLIENT, "login_roles": ROLES}
    async with make_site(**login, oidc_client_secret_file=str(tmp_path / "gone")) as site:
        page = await log_in(site)

    assert page.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "the secret for the login provider cannot be read; the log of this server" in page.text
    assert str(tmp_path) not in page.text
    assert [entry["error"].partition(":")[0] for entry in site.logged if entry["event"] == "oidc_client_secret_unreadable"] == [
        "TIDEGATE_OIDC_CLIENT_SECRET_FILE cannot be read"
    ]


async def test_an_invented_answer_is_stored_and_counted(
    make_site: MakeSite, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PROVIDER_LOGINS_PER_S", 0.001)
    invented = login_attempt.begin("/")
    login = {"oidc_issuer": provider.issuer, "oidc_client_id": CLIENT, "oidc_client_secret": SECRET, "login_roles": ROLES}
    answer = f"/login/oidc/callback?state={invented.state}"
    async with make_site(**login) as site:
        name = f"tidegate_login_{httpx.URL(site.address).port}_{invented.digest.hex()[:16]}"
        kept = {"cookie": f"{name}={invented.encode()}"}
        async with site.anonymous(headers=kept) as client:
            refused = await client.get(f"{answer}&error=a%00b")
            first, above = [await client.get(f"{answer}&code=c") for _ in range(2)]
        (entry, _) = await site.history.database.pool.fetch(ENTRIES)

    assert (refused.status_code, entry["reason"]) == (HTTPStatus.FORBIDDEN, "the provider refused the login: a\\x00b")
    assert (first.status_code, above.status_code) == (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
    assert provider.requests.count("/token") == 1


async def test_a_provider_that_was_never_there_leaves_the_login_by_a_token(make_site: MakeSite) -> None:
    nowhere = {"oidc_issuer": "http://127.0.0.1:1", "oidc_client_id": CLIENT, "login_roles": ROLES}
    async with make_site(**nowhere) as site:
        page = await log_in(site)

    assert page.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "the login provider is not available at 127.0.0.1:1" in page.text
    assert 'name="token"' in page.text


async def test_the_answer_of_the_provider_counts_once_and_in_its_browser(site: Site, provider: OidcProvider) -> None:
    async with site.anonymous() as client, httpx.AsyncClient(verify=NO_TLS) as walker:
        begun = await client.get("/login/oidc")
        asked, kept = begun.headers["location"], {"cookie": begun.headers["set-cookie"].split(";")[0]}
        client.cookies.clear()
        answer = (await walker.get(asked)).headers["location"]
        scanned = await client.head(answer, headers=kept)
        stolen = await client.get(answer)
        mixed = await client.get(f"{answer}&iss=https://another.example", headers=kept)
        first = await client.get(answer, headers=kept)
        again = await client.get(answer, headers=kept)
        replayed = await client.get((await walker.get(asked)).headers["location"], headers=kept)

    assert scanned.status_code == HTTPStatus.OK
    assert "set-cookie" not in scanned.headers
    assert (first.status_code, first.headers["location"]) == (HTTPStatus.SEE_OTHER, "/")
    assert "tidegate_login" in first.headers.get_list("set-cookie")[1]
    assert [page.status_code for page in (stolen, mixed, again, replayed)] == [HTTPStatus.FORBIDDEN] * 4
    assert "began in another browser" in stolen.text
    assert "another provider" in mixed.text
    assert "unknown code" in again.text
    assert "was completed before" in replayed.text


async def test_a_browser_finishes_logins_of_two_windows_in_any_order(site: Site, provider: OidcProvider) -> None:
    async with site.anonymous() as client, httpx.AsyncClient(verify=NO_TLS) as walker:
        begun = [await client.get("/login/oidc", params={"next": next_}) for next_ in ("/dags", "/queue")]
        answers = [(await walker.get(answer.headers["location"])).headers["location"] for answer in begun]
        forged = await client.get("/login/oidc/callback?state=of-another-site")
        led = [(await client.get(answer)).headers.get("location") for answer in answers]

    assert forged.status_code == HTTPStatus.FORBIDDEN
    assert led == ["/dags", "/queue"]


async def test_a_browser_keeps_the_newest_logins_that_it_began(site: Site, provider: OidcProvider) -> None:
    async with site.anonymous() as client:
        for number in range(login_oidc.MOST_BEGUN + 2):
            await client.get("/login/oidc", params={"next": f"/dags?search={number}"})
        kept = [attempt.next for value in client.cookies.values() if (attempt := login_attempt.decode(value))]

    assert kept == [f"/dags?search={number}" for number in range(2, login_oidc.MOST_BEGUN + 2)]


async def test_the_login_leads_to_no_other_site(site: Site) -> None:
    for next_ in ("//evil.example/", "https://evil.example/", "/" + "a" * 3000):
        assert (await log_in(site, next_)).url.path == "/", next_


async def test_the_provider_sends_the_browser_back_to_the_host_it_came_from(make_site: MakeSite, provider: OidcProvider) -> None:
    login = {"oidc_issuer": provider.issuer, "oidc_client_id": CLIENT, "oidc_client_secret": SECRET, "login_roles": ROLES}
    async with (
        make_site(**login, web_hosts="tide.example") as public,
        public.anonymous(headers={"host": "tide.example"}) as client,
    ):
        answer = await client.get("/login/oidc")

    asked = httpx.URL(answer.headers["location"])
    assert asked.params["redirect_uri"] == "https://tide.example/login/oidc/callback"
    assert "Secure" in answer.headers["set-cookie"]
    assert "HttpOnly" in answer.headers["set-cookie"]
