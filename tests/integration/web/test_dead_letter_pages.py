"""Dead letters and broken DAG files on pages."""

import re
from http import HTTPStatus

import httpx
import pytest

from tests.integration.cli import dead_letters as letters
from tests.integration.web.conftest import HOSTILE, Site, csrf_of, page
from tidegate.daemon.permissions import Role
from tidegate.schemas.queries import dead_letters, inbox
from tidegate.schemas.queries.dead_letters import DeadLetterFilter

READABLE = b'{"uri": "lake://flights"}'


def ids_in(text: str) -> list[int]:
    return [int(id_) for id_ in re.findall(r'<th scope="row"><a href="/dead-letters/(\d+)"', text)]


async def send(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    """Open the form, and send what it shows."""
    form = await client.get(path)
    (ids,) = re.findall(r'name="ids" value="([\d,]*)"', form.text)
    return await client.post(path.partition("?")[0], data={"csrf": csrf_of(form), "ids": ids, **fields})


async def test_the_list_is_filtered(site: Site) -> None:
    assert "No record waits for a decision" in await page(site, "/dead-letters")
    first, second, third = await letters.written(site.history)
    await site.history.database.run(dead_letters.discard, [first], "ben", "a test")

    shown = {
        query: ids_in(await page(site, "/dead-letters", **dict(pair.split("=") for pair in query.split("&") if pair)))
        for query in ("", "state=all", "state=discarded", "reason=invalid", "topic=none", "until=2013-01-31", "since=2013-01-31")
    }

    assert shown == {
        "": [third, second],
        "state=all": [third, second, first],
        "state=discarded": [first],
        "reason=invalid": [second],
        "topic=none": [],
        "until=2013-01-31": [],
        "since=2013-01-31": [third, second],
    }


async def test_the_list_has_pages_that_keep_the_filter(site: Site) -> None:
    ids = await letters.written(site.history)

    first = await page(site, "/dead-letters", limit="1", reason="malformed")
    (address,) = re.findall(r'href="(/dead-letters\?[^"]*cursor[^"]*)"', first)
    second = await page(site, address.replace("&amp;", "&"))

    assert (ids_in(first), ids_in(second)) == ([ids[2]], [ids[0]])
    assert "Next 1" not in second


async def test_a_time_that_cannot_be_read_is_named(site: Site) -> None:
    async with site.browser() as client:
        answer = await client.get("/dead-letters", params={"since": "soon"})

    assert answer.status_code == HTTPStatus.BAD_REQUEST
    assert "since: write a date or a time" in answer.text


async def test_a_dead_letter_shows_its_record_and_what_to_do(site: Site) -> None:
    first, second, _ = await letters.written(site.history)

    texts = [await page(site, f"/dead-letters/{id_}") for id_ in (first, second)]

    assert "What to do:" in texts[0]
    assert "\\xff\\xfe" in texts[1]
    assert ("ce_id" in texts[0], "lake://flights" in texts[0]) == (True, True)


async def test_all_of_a_filter_are_discarded_with_a_reason(site: Site) -> None:
    first, second, third = await letters.written(site.history)
    async with site.browser(Role.OPERATOR) as client:
        preview = (await client.get("/dead-letters/discard?reason=malformed")).text
        without = await send(client, "/dead-letters/discard?reason=malformed")
        done = await send(client, "/dead-letters/discard?reason=malformed", because="the importer is mended")

    assert "Discard 2 dead letters" in preview
    assert (without.status_code, "because: write a few words" in without.text) == (HTTPStatus.BAD_REQUEST, True)
    assert ids_in(done.text) == [third, first]
    assert await site.history.database.run(dead_letters.open_ids, DeadLetterFilter()) == [second]
    assert "discarded by anna" in await page(site, f"/dead-letters/{first}")


async def test_a_replay_shows_before_what_it_refuses(site: Site) -> None:
    first, *_ = await letters.written(site.history)
    async with site.browser(Role.OPERATOR) as client:
        preview = (await client.get(f"/dead-letters/replay?id={first}")).text
        refused = await send(client, f"/dead-letters/replay?id={first}")

    assert "would be refused again" in preview
    assert (refused.status_code, "would be refused again" in refused.text) == (HTTPStatus.CONFLICT, True)


async def test_a_readable_record_is_replayed_once(site: Site) -> None:
    letter = letters.letter(1, "malformed", READABLE)
    await site.history.database.run(inbox.insert_dead_letters, [letter])
    (id_,) = await site.history.database.run(dead_letters.open_ids, DeadLetterFilter())
    async with site.browser(Role.OPERATOR) as client:
        shown = await send(client, f"/dead-letters/replay?id={id_}")
        again = (await client.get(f"/dead-letters/replay?id={id_}")).text

    assert (shown.url.path, "It waits to be sent" in shown.text) == (f"/dead-letters/{id_}", True)
    assert "nothing can be changed" in again
    assert '<button class="main' not in again


@pytest.mark.parametrize("change", ["replay", "discard"])
async def test_a_change_needs_its_right_and_its_token(site: Site, change: str) -> None:
    ids = await letters.written(site.history)
    fields = {"ids": str(ids[0]), "because": "x"}
    async with site.browser(Role.EDITOR) as editor, site.browser(Role.OPERATOR) as operator:
        csrf = csrf_of(await editor.get("/dags"))
        answers = [
            await editor.get(f"/dead-letters/{change}"),
            await editor.post(f"/dead-letters/{change}", data={**fields, "csrf": csrf}),
            await operator.post(f"/dead-letters/{change}", data=fields),
        ]
        offered = (await editor.get("/dead-letters")).text

    assert [answer.status_code for answer in answers] == [HTTPStatus.FORBIDDEN] * 3
    assert await site.history.database.run(dead_letters.open_ids, DeadLetterFilter()) == ids
    assert "Replay these" not in offered


async def test_broken_files_are_listed_with_their_dags(site: Site) -> None:
    assert "Every DAG file could be read" in await page(site, "/import-errors")
    await site.history.file()
    await site.history.broken_file("daily.py", f"SyntaxError: {HOSTILE}", 3)
    await site.history.broken_file("other.py", "ValueError: no")

    text = await page(site, "/import-errors")
    found = await page(site, "/import-errors", search="daily")
    first = await page(site, "/import-errors", limit="1")
    (address,) = re.findall(r'href="(/import-errors\?[^"]*cursor[^"]*)"', first)

    assert ("daily.py:3" in text, "other.py" in text, HOSTILE in text) == (True, True, False)
    assert re.findall(r'href="/dags/(\w+)">', text) == ["daily_delays"]
    assert ("other.py" in found, "other.py" in first) == (False, False)
    assert "other.py" in await page(site, address.replace("&amp;", "&"))


async def test_names_of_users_are_no_html(site: Site) -> None:
    letter = letters.letter(1, "malformed", HOSTILE.encode())
    await site.history.database.run(inbox.insert_dead_letters, [letter])
    (id_,) = await site.history.database.run(dead_letters.open_ids, DeadLetterFilter())

    texts = [
        await page(site, f"/dead-letters/{id_}"),
        await page(site, "/dead-letters", topic=HOSTILE, since="", until=""),
        await page(site, "/import-errors", search=HOSTILE),
    ]

    assert all("<script>alert" not in text and "alert(1)" in text for text in texts)
