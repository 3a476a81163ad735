"""`tidegate web` as a process, beside the command line."""

import signal
import socket
from pathlib import Path

import anyio
import httpx
import msgspec
from anyio.streams.text import TextReceiveStream

from tests.acceptance.command import TIDEGATE, Command

WITHIN_S = 60.0


async def address_of(stderr: anyio.abc.ByteReceiveStream) -> str:
    """The address in the first line of its log."""
    text = ""
    async for part in TextReceiveStream(stderr):
        text += part
        if "\n" in text:
            break
    return str(msgspec.json.decode(text.partition("\n")[0])["address"])


async def test_pages_and_the_api_are_served_until_sigterm(dsn: str, tmp_path: Path) -> None:
    tidegate = Command(tmp_path, postgres_dsn=dsn, web_port="0")
    token = (await tidegate.answer("tokens", "create", "anna", "--role", "editor"))["token"]
    with anyio.fail_after(WITHIN_S):
        async with await anyio.open_process([TIDEGATE, "web"], env=tidegate.env, cwd=tmp_path) as process:
            assert process.stderr is not None
            address = await address_of(process.stderr)
            async with httpx.AsyncClient(base_url=address, follow_redirects=True) as client:
                answer = await client.get("/api/v1/dags", headers={"authorization": f"Bearer {token}"})
                page = await client.post("/login", data={"token": token})
            process.send_signal(signal.SIGTERM)
            code = await process.wait()

    assert answer.json() == {"items": [], "next_cursor": None}
    assert "three steps to the first one" in page.text
    assert code == 0


async def test_a_port_in_use_is_an_error_that_names_the_setting(dsn: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        ended = await Command(tmp_path, postgres_dsn=dsn, web_port=str(port))("web")

    assert ended.code == 1
    assert ended.err == f"tidegate: port {port} of 127.0.0.1 cannot be listened on: Address already in use; " + (
        "set TIDEGATE_WEB_PORT and TIDEGATE_WEB_HOST\n"
    )


async def test_editors_that_cannot_be_read_are_an_error_at_the_start(dsn: str, tmp_path: Path) -> None:
    ended = await Command(tmp_path, postgres_dsn=dsn, web_port="0", editors="anna")("web")

    assert (ended.code, "TIDEGATE_EDITORS cannot be read" in ended.err) == (2, True)


async def test_tokens_are_created_listed_and_revoked(dsn: str, tmp_path: Path) -> None:
    tidegate = Command(tmp_path, postgres_dsn=dsn)
    made = await tidegate.answer("tokens", "create", "ci", "--role", "operator", "--dag", "finance_*", "--expires", "30d")
    (listed,) = await tidegate.answer("tokens", "list")
    revoked = await tidegate("tokens", "revoke", "1")
    again = await tidegate("tokens", "revoke", "1")
    wrong = await tidegate("tokens", "create", "a b")

    assert made["token"].startswith("tdg_")
    assert (listed["username"], listed["role"], listed["dags"]) == ("ci", "operator", ["finance_*"])
    assert "digest" not in listed
    assert revoked.out == "revoked token 1 of ci\n"
    assert (again.code, again.err) == (1, "tidegate: there is no token 1 that is in use; `tidegate tokens list` shows all\n")
    assert wrong.code == 2


async def test_another_schema_is_an_error_that_says_what_to_do(empty_dsn: str, tmp_path: Path) -> None:
    ended = await Command(tmp_path, postgres_dsn=empty_dsn, web_port="0")("web")

    assert (ended.code, ended.out) == (1, "")
    assert "the database schema lacks" in ended.err
    assert "update it with `tidegate migrate`" in ended.err
