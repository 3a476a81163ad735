"""`tidegate --server`: commands over the API, without a database."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import anyio
import pytest

from tests.integration.cli.conftest import Answer
from tests.integration.web.conftest import Site
from tidegate.daemon.cli.app import run
from tidegate.daemon.docs.generate import commands_by_reach
from tidegate.daemon.permissions import Role

Cli = Callable[..., Awaitable[Answer]]

DATES = ("--from", "2013-01-01", "--to", "2013-01-02")


@pytest.fixture
async def cli(two: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Call `tidegate` with a token of the DAGs `mine_*`, and with no address of Postgres."""
    monkeypatch.delenv("TIDEGATE_POSTGRES_DSN", raising=False)
    monkeypatch.setenv("TIDEGATE_SERVER", two.address)
    monkeypatch.setenv("TIDEGATE_TOKEN", await two.token(Role.EDITOR, user="anna", dags=("mine_*",)))

    async def call(*args: str) -> Answer:
        code = await anyio.to_thread.run_sync(partial(run, args))
        return Answer(code, *capsys.readouterr())

    return call


@pytest.mark.parametrize(
    "command",
    [
        ("dags", "list"),
        ("dags", "show", "mine_a"),
        ("dags", "errors"),
        ("runs", "list"),
        ("runs", "list", "mine_a", "--state", "queued", "--since", "2013-01-01", "-n", "1"),
        ("runs", "show", "mine_a", "latest"),
        ("runs", "explain", "mine_a", "latest"),
        ("tasks", "list", "mine_a", "r"),
        ("datasets", "list"),
        ("backfills", "list"),
        ("pools", "list"),
        ("deadlines", "list", "--missed"),
        ("notifications", "list"),
        ("deadletters", "list", "--state", "all"),
        ("losses", "list", "--all"),
        ("topics", "halted"),
        ("topics", "ignored"),
    ],
)
async def test_a_list_is_that_of_the_database(
    cli: Cli, two: Site, dsn: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = await cli(*command, "--json")
    monkeypatch.delenv("TIDEGATE_SERVER")
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", dsn)
    local = await cli(*command, "--json")

    assert remote.code == 0, remote.err
    assert remote.json == local.json


async def test_a_run_is_triggered_and_ended(cli: Cli) -> None:
    assert await cli("runs", "trigger", "mine_a", "--run-id", "x", "--conf", '{"n": 1}') == (0, "triggered mine_a x\n", "")
    assert (await cli("runs", "show", "mine_a", "x", "--json")).json["conf"] == {"n": 1}
    assert (await cli("runs", "note", "mine_a", "x", "late")).out == "the note is written\n"
    assert [note["content"] for note in (await cli("runs", "show", "mine_a", "x", "--json")).json["notes"]] == ["late"]
    assert (await cli("runs", "note", "mine_a", "x", "--remove", "--json")).json == []
    assert (await cli("runs", "cancel", "mine_a", "x")).out == "cancelled mine_a x\n"
    assert (await cli("runs", "mark", "mine_a", "r", "success")).out == "marked mine_a r as success\n"
    assert (await cli("dags", "pause", "mine_a")).out == "paused mine_a\n"


async def test_a_backfill_is_created_and_changed(cli: Cli, two: Site) -> None:
    assert len((await cli("backfills", "create", "mine_a", *DATES, "--dry-run", "--json")).json["dates"]) == 2
    assert (await cli("backfills", "create", "mine_a", *DATES)).out == "created backfill 1 of mine_a\n"
    await two.history.backfilled()
    assert (await cli("backfills", "set", "1", "--max-active-runs", "3", "--to", "2013-01-09")).out.startswith(
        "changed backfill 1: max_active_runs is 3. It has "
    )
    assert (await cli("backfills", "show", "1", "--json")).json["backfill"]["max_active_runs"] == 3
    assert len((await cli("backfills", "dates", "1", "--json")).json) == 2
    assert (await cli("backfills", "pause", "1")).out.startswith("paused backfill 1. It starts no more runs. ")
    assert (await cli("backfills", "cancel", "1", "--kill")).out.startswith("cancelled backfill 1. Its queued runs fail, ")
    assert (await cli("backfills", "create", "mine_a", "--date", "2013-02-05T06:00", "--json")).json["id"] == 2


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (("runs", "trigger", "other"), (1, "", "tidegate: anna may change the DAGs mine_*, not 'other'\n")),
        (("pools", "set", "p", "1"), (1, "", "tidegate: anna has the role editor; this needs operator\n")),
        (("dags", "show", "none"), (1, "", "tidegate: there is no DAG 'none'; `tidegate dags list` shows all\n")),
        (
            ("dags", "why-not", "mine_a"),
            (
                2,
                "",
                "tidegate: tidegate dags why-not needs Postgres: leave out --server and TIDEGATE_SERVER, and set"
                " TIDEGATE_POSTGRES_DSN\n",
            ),
        ),
    ],
)
async def test_a_refusal_is_one_sentence(cli: Cli, command: tuple[str, ...], answer: Answer) -> None:
    assert await cli(*command) == answer


NEED_POSTGRES = (
    ("dags", "why-not", "mine_a"),
    ("dags", "next", "mine_a"),
    ("dags", "plan"),
    ("runs", "clear", "mine_a", "r"),
    ("tasks", "logs", "mine_a", "r", "first"),
    ("tasks", "test", "mine_a", "r", "first"),
    ("tasks", "why-not", "mine_a", "r", "first"),
    ("tasks", "clear", "mine_a", "r", "first"),
    ("backfills", "watch", "1"),
    ("datasets", "events", "lake://flights"),
    ("datasets", "audit"),
    ("notifications", "logs", "1"),
    ("topics", "resume", "a/0", "--at", "latest"),
    ("deadletters", "show", "1"),
    ("deadletters", "replay", "1"),
    ("deadletters", "discard", "1", "--because", "a test"),
    ("tokens", "create", "ben"),
    ("tokens", "revoke", "1"),
    ("losses", "settle", "1", "--because", "a test"),
    ("audit", "verify"),
)


async def test_the_commands_that_need_postgres_say_so(cli: Cli) -> None:
    assert [" ".join(command[:2]) for command in NEED_POSTGRES] == commands_by_reach()[False, True]
    for command in NEED_POSTGRES:
        answer = await cli(*command)
        assert (answer.code, "TIDEGATE_POSTGRES_DSN" in answer.err) == (2, True), (command, answer)


async def test_a_task_is_marked_and_its_result_is_read(cli: Cli, two: Site) -> None:
    await two.history.clock("mine_a")
    assert (await cli("tasks", "mark", "mine_a", "r", "first", "success")).out == "marked first as success\n"
    assert "has no result" in (await cli("tasks", "result", "mine_a", "r", "first")).err
    assert (await cli("dags", "delete", "mine_a", "--yes")).code == 1
    assert (await cli("dags", "release", "other")).err == "tidegate: anna may change the DAGs mine_*, not 'other'\n"
    await two.history.file_absent("mine_a.py")
    await cli("runs", "mark", "mine_a", "r", "success")
    assert (await cli("dags", "delete", "mine_a", "--yes")).out == "deleted mine_a\n"


async def test_a_wrong_address_or_token_is_one_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    away = await cli("--server", "http://127.0.0.1:1", "runs", "list")
    wrong = await cli("--server", "tide", "runs", "list")
    monkeypatch.setenv("TIDEGATE_TOKEN", "tdg_wrong")
    unknown = await cli("runs", "list")
    monkeypatch.setenv("TIDEGATE_TOKEN", "")
    missing = await cli("runs", "list")

    assert (away.code, away.err.partition(":")[2].partition(":")[0]) == (3, " http")
    assert (wrong.code, wrong.err) == (2, "tidegate: TIDEGATE_SERVER is 'tide', but must be like https://tidegate.example\n")
    assert (unknown.code, unknown.err.partition(";")[0]) == (1, "tidegate: the token is unknown, expired or revoked")
    assert (missing.code, missing.err.partition(";")[0]) == (2, "tidegate: TIDEGATE_TOKEN is not set")


@pytest.mark.parametrize("token", ["tdg_ü", "tdg_a\n", "tdg a"])
async def test_a_token_that_no_header_can_have_is_a_wrong_setting(cli: Cli, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_TOKEN", token)

    refused = await cli("runs", "list")

    assert (refused.code, refused.err.partition(":")[2].partition(":")[0]) == (2, " TIDEGATE_TOKEN is no token")


async def test_an_address_that_no_host_can_have_is_a_wrong_setting(cli: Cli) -> None:
    wrong = await cli("--server", "http://tide..gate", "runs", "list")

    assert (wrong.code, wrong.err.partition(",")[0]) == (2, "tidegate: TIDEGATE_SERVER is 'http://tide..gate'")


class LoginPage(BaseHTTPRequestHandler):
    """A proxy that answers every request with its login page."""

    content = b"<html>"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.content)

    do_POST = do_GET  # noqa: N815 - a name of the library

    def log_message(self, *_: object) -> None:
        return


class EndlessList(LoginPage):
    """A server whose list never ends, as the second page has the cursor of the first one."""

    content = b'{"items": [], "next_cursor": "x"}'


@pytest.fixture(params=[LoginPage])
def proxy(request: pytest.FixtureRequest) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), request.param) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("command", [("runs", "list"), ("dags", "show", "mine_a"), ("runs", "trigger", "mine_a")])
async def test_an_answer_of_another_server_is_one_sentence(cli: Cli, proxy: str, command: tuple[str, ...]) -> None:
    refused = await cli("--server", proxy, *command)

    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"tidegate: {proxy} gave an answer that cannot be read (JSON is malformed")


@pytest.mark.parametrize("proxy", [EndlessList], indirect=True)
async def test_a_list_without_an_end_is_refused(cli: Cli, proxy: str) -> None:
    refused = await cli("--server", proxy, "dags", "errors")

    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"tidegate: {proxy} gave a cursor of /import-errors twice: the list has no end")
