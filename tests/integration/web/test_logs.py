"""The log of a task on its page and in the API: a part of it, however long it is, and whatever the task wrote."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.cli.history import HOST
from tests.integration.cli.spools import begun
from tests.integration.web.conftest import MakeSite, Site
from tidegate.daemon.api.tasks import LOG_BYTES
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
    assert "The first 3000010 bytes are left out" in text


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
