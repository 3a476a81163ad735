"""The log of a task on its page and in the API: a part of it, however long it is, and whatever the task wrote."""

import html
import re
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from uuid import UUID

import pytest

from tests.integration.cli.history import HOST
from tests.integration.cli.spools import begun
from tests.integration.web.conftest import MakeSite, Site
from tidegate.daemon.api.tasks import LOG_BYTES
from tidegate.daemon.spark.contract import LogChunk
from tidegate.daemon.spark.spool import Spool

TASK = "/dags/daily_delays/runs/latest/tasks/join"
LINE = b"0123456789abcde\n"


@pytest.fixture
async def host(make_site: MakeSite, tmp_path: Path) -> AsyncIterator[Site]:
    """A site on the host where tasks run."""
    async with make_site(host=HOST, spool_dir=str(tmp_path / "spool")) as site:
        yield site


async def log_of(host: Site, tmp_path: Path, content: bytes) -> Spool:
    await host.history.file()
    await host.history.run()
    (attempt,) = await host.history.attempts_begin()
    spool = begun(tmp_path, attempt.submission_id)
    spool.log.write_bytes(content)
    return spool


async def test_the_end_of_a_long_log_is_shown(host: Site, tmp_path: Path) -> None:
    await log_of(host, tmp_path, b"begin\n" + LINE * 200_000 + b"end\n")
    async with host.browser() as client:
        text = (await client.get(TASK)).text

    assert "end\n</pre>" in text
    assert "begin\n" not in text
    assert len(text) < 300_000
    assert re.search(r"Bytes 3,000,\d+ to 3,200,010 of 3,200,010\.", text)
    assert "data-end>0123456789abcde\n" in text  # the rest of a line is left out


async def test_a_long_log_is_read_by_parts_of_whole_characters(host: Site, tmp_path: Path) -> None:
    content = b"begin\n" + "é\n".encode() * 1_000_000
    await log_of(host, tmp_path, content)
    parts, offset = [], 0
    async with host.program() as client:
        last = (await client.get(f"/api/v1{TASK}/log")).json()
        while (part := (await client.get(f"/api/v1{TASK}/log", params={"offset": offset})).json())["content"]:
            parts.append(part["content"])
            offset = part["next_offset"]

    assert "".join(parts).encode() == content
    assert max(map(len, parts)) < 2 * LOG_BYTES
    assert (last["offset"], last["next_offset"]) == (len(content) - LOG_BYTES, len(content))


async def test_what_a_task_wrote_is_no_html(host: Site, tmp_path: Path) -> None:
    await log_of(host, tmp_path, b"\x1b[31m<script>alert(1)</script>\0\xff</pre>\r\n")
    async with host.browser() as client:
        text = (await client.get(TASK)).text

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text


TRACEBACK = b'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no\n'


async def failed_with(host: Site, tmp_path: Path, content: bytes) -> None:
    """The attempt fails, and its log is this."""
    spool = await log_of(host, tmp_path, content)
    await host.history.attempt_ends(UUID(spool.path.name), "failed", reason="ValueError: no")


async def test_the_log_of_a_failure_opens_at_its_error(host: Site, tmp_path: Path) -> None:
    await failed_with(host, tmp_path, b"begin\n" + LINE * 20_000 + TRACEBACK + LINE * 20_000)
    async with host.browser() as client:
        text = (await client.get(TASK)).text
        end = (await client.get(TASK, params={"offset": 600_000})).text

    assert '<span id="at"></span>Traceback' in text
    assert '<a class="button" href="#at">The error</a>' in text
    assert 'id="at"' not in end
    assert "data-end" not in text + end


async def test_earlier_and_later_parts_are_all_of_a_log(host: Site, tmp_path: Path) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(100_000))
    await log_of(host, tmp_path, lines)
    later, earlier = list[str](), list[str]()
    async with host.browser() as client:
        page = await client.get(TASK, params={"offset": 0})
        later.append(page.text)
        while found := re.search(r'rel="next" href="([^"]+)"', later[-1]):
            later.append((await client.get(html.unescape(found[1]))).text)
        earlier.append((await client.get(TASK)).text)
        while found := re.search(r'rel="prev" href="([^"]+)"', earlier[-1]):
            earlier.append((await client.get(html.unescape(found[1]))).text)

    for pages in (later, earlier):
        logs = [re.findall(r'<pre class="log"[^>]*>(.*?)</pre>', text, re.DOTALL)[0] for text in pages]
        assert {line for log in logs for line in log.splitlines()} == {f"line {number}" for number in range(100_000)}
        assert 3 < len(pages) < 10


async def test_a_text_is_found_in_a_log_and_leads_to_its_line(host: Site, tmp_path: Path) -> None:
    await log_of(host, tmp_path, LINE * 50_000 + b"here <is> one\n" + LINE * 50_000 + b"HERE <IS> another\n")
    async with host.browser() as client, host.program() as program:
        text = (await client.get(TASK, params={"search": "here <is>"})).text
        none = (await client.get(TASK, params={"search": "nowhere"})).text
        (first, second) = re.findall(r'<li><a href="([^"]+)"><code>([^<]+)</code>', text)
        at = (await client.get(html.unescape(first[0]))).text
        found = (await program.get(f"/api/v1{TASK}/log/matches", params={"text": "Here <is>"})).json()
        after = (await program.get(f"/api/v1{TASK}/log/matches", params={"text": "here", "offset": 900_000})).json()

    assert "2 lines have <code>here &lt;is&gt;</code>." in text
    assert [html.unescape(line) for _, line in (first, second)] == ["here <is> one", "HERE <IS> another"]
    assert '<span id="at"></span><mark>here &lt;is&gt;</mark> one' in at
    assert "No line has <code>nowhere</code>." in none
    assert found == {
        "matches": [{"offset": 800_000, "line": "here <is> one"}, {"offset": 1_600_014, "line": "HERE <IS> another"}],
        "next_offset": None,
    }
    assert [line["offset"] for line in after["matches"]] == [1_600_014]


async def test_a_log_of_a_hundred_mebibytes_is_read_in_parts(host: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = await log_of(host, tmp_path, b"begin\n")
    with spool.log.open("r+b") as file:
        file.seek(100 * 2**20)
        file.write(b"\nlast line\n")
    read, read_log = list[int](), Spool.read_log

    def counted(self: Spool, offset: int) -> LogChunk:
        chunk = read_log(self, offset)
        read.append(len(chunk.content))
        return chunk

    monkeypatch.setattr(Spool, "read_log", counted)
    async with host.browser() as client:
        page, shown = (await client.get(TASK)).text, sum(read)
        searched = (await client.get(TASK, params={"search": "last line", "offset": 0})).text
        places = re.search(r"; <a href=\"([^\"]+)\">search on</a>", searched)
        of_search = sum(read) - shown

    assert "last line" in page
    assert shown < 2**20
    assert re.search(r"No line has <code>last line</code>\s+before byte 3[345],\d", searched)
    assert places is not None
    assert of_search < 36 * 2**20


async def test_a_log_is_downloaded_as_it_is(host: Site, tmp_path: Path) -> None:
    content = b"\x1b[31m<b>\xff\0\r\n" * 100_000
    await log_of(host, tmp_path, content)
    async with host.browser() as client, host.anonymous() as nobody:
        link = re.search(r'<a class="button" href="([^"]+)" download>', (await client.get(TASK)).text)
        assert link is not None
        file = await client.get(html.unescape(link[1]))
        absent = await client.get(f"{TASK}x/log.txt")
        unknown = await nobody.get(f"{TASK}/log.txt")

    assert file.content == content
    assert file.headers["content-type"] == "text/plain; charset=utf-8"
    assert file.headers["content-disposition"].startswith("attachment")
    assert (absent.status_code, unknown.status_code) == (HTTPStatus.NOT_FOUND, HTTPStatus.SEE_OTHER)
