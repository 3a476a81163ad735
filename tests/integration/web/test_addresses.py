"""Addresses that users paste, click in a chat, or jump to."""

from http import HTTPStatus

import pytest

from tests.integration.web.conftest import Site, csrf_of

ADDED = "utm_source=chat&utm_source=mail&fbclid=1"
"""Mail programs and chats add such parameters."""


async def test_pages_ignore_parameters_that_they_do_not_know(site: Site) -> None:
    await site.history.file()
    async with site.browser() as client:
        pages = [
            await client.get(f"{path}?{ADDED}")
            for path in ("/", "/dags", "/dags/daily_delays", "/dags/daily_delays/pause", "/jump")
        ]
        known = await client.get(f"/dags?limit=x&{ADDED}")
        twice = await client.get(f"/dags?search=a&search=b&{ADDED}")
        paused = await client.post(f"/dags/daily_delays/pause?{ADDED}", data={"csrf": csrf_of(pages[3]), "is_paused": "true"})
        api = await client.get(f"/api/v1/dags?{ADDED}")

    assert [page.status_code for page in pages] == [HTTPStatus.OK] * len(pages)
    assert [answer.status_code for answer in (known, twice, api)] == [HTTPStatus.BAD_REQUEST] * 3
    assert paused.status_code == HTTPStatus.OK, paused.text


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("daily_delays", "/dags/daily_delays"),
        (" lake://flights ", "/dataset?uri=lake%3A%2F%2Fflights"),
        ("daily", "/dags?search=daily"),
        ("lake://fl", "/dags?search=lake%3A%2F%2Ffl"),
        ("", "/dags"),
    ],
)
async def test_the_box_of_each_page_leads_to_what_has_this_name(site: Site, text: str, address: str) -> None:
    await site.history.file()
    async with site.browser() as client:
        page = await client.get("/")
        answer = await client.get("/jump", params={"search": text}, follow_redirects=False)
    async with site.anonymous() as client:
        unknown = await client.get("/jump", params={"search": text})

    assert 'action="/jump"' in page.text
    assert (answer.status_code, answer.headers["location"]) == (HTTPStatus.SEE_OTHER, address)
    assert unknown.headers["location"].startswith("/login?next=")
