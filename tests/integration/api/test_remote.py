"""`tidegate --server`: commands over the API, without a database."""

from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import anyio
import pytest

from tests.integration.api.conftest import Cli
from tests.integration.cli import dead_letters
from tests.integration.cli.conftest import Answer
from tests.integration.cli.dead_letters import NOON
from tests.integration.web.conftest import Site
from tidegate.daemon.cli import remote
from tidegate.daemon.cli.commands import dead_letters as dead_letter_commands
from tidegate.daemon.docs.generate import commands_by_reach
from tidegate.daemon.permissions import Role
from tidegate.schemas.queries import audit_log, inbox, losses
from tidegate.schemas.queries.credentials import list_tokens

DATES = ("--from", "2013-01-01", "--to", "2013-01-02")


async def test_a_run_is_triggered_and_ended(cli: Cli) -> None:
    triggered = await cli("runs", "trigger", "mine_a", "--run-id", "x", "--conf", '{"n": 1}')
    queued = "it is queued: the DAG is paused, in no DAG file, or at its limit of active runs\n"
    assert triggered == (0, "triggered mine_a x\n", queued)
    assert (await cli("runs", "show", "mine_a", "x", "--json")).json["conf"] == {"n": 1}
    assert (await cli("runs", "note", "mine_a", "x", "late")).out == "the note is written\n"
    assert [note["content"] for note in (await cli("runs", "show", "mine_a", "x", "--json")).json["notes"]] == ["late"]
    assert (await cli("runs", "note", "mine_a", "x", "--remove", "--json")).json == []
    empty = [await cli("runs", verb, "mine_a", "") for verb in ("cancel", "show")]
    assert empty == [(1, "", "tidegate: an argument of the command is empty; is a variable of the shell not set?\n")] * 2
    assert (await cli("tasks", "mark", "mine_a", "r", "..", "success")).err == "tidegate: '..' is no name\n"
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
        (("topics", "resume", "a/0", "--at", "latest"), (1, "", "tidegate: anna has the role editor; this needs operator\n")),
        (("pools", "set", "p", "1"), (1, "", "tidegate: anna has the role editor; this needs operator\n")),
        (("dags", "show", "none"), (1, "", "tidegate: there is no DAG 'none'; `tidegate dags list` shows all\n")),
        (
            ("dags", "plan"),
            (
                2,
                "",
                "tidegate: tidegate dags plan needs Postgres: leave out --server and TIDEGATE_SERVER, and set"
                " TIDEGATE_POSTGRES_DSN\n",
            ),
        ),
    ],
)
async def test_a_refusal_is_one_sentence(cli: Cli, command: tuple[str, ...], answer: Answer) -> None:
    assert await cli(*command) == answer


NEED_POSTGRES = (
    ("dags", "plan"),
    ("tasks", "test", "mine_a", "r", "first"),
    ("datasets", "audit"),
    ("notifications", "logs", "1"),
    ("tokens", "create", "ben"),
    ("restore", "check"),
    ("restore", "settle", "--from-latest", "--because", "x", "--yes"),
)


async def test_the_commands_that_need_postgres_say_so(cli: Cli) -> None:
    assert [" ".join(command[:2]) for command in NEED_POSTGRES] == commands_by_reach()[False, True]
    for command in NEED_POSTGRES:
        answer = await cli(*command)
        assert (answer.code, "TIDEGATE_POSTGRES_DSN" in answer.err) == (2, True), (command, answer)


async def test_a_backfill_is_followed_to_its_end(cli: Cli, two: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def cancel() -> None:
        async with two.program() as client:
            answer = await client.post("/api/v1/backfills/1/cancel", json={"kill": True})
        assert answer.is_success, answer.text
        await two.history.backfilled()

    monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=lambda _: anyio.from_thread.run(cancel)))
    with anyio.fail_after(60):
        followed = await cli("backfills", "create", "mine_a", *DATES, "--watch")
        again = await cli("backfills", "watch", "1")

    assert (followed.code, followed.out) == (1, "created backfill 1 of mine_a\n"), followed.err
    assert [line.endswith("| cancelled") for line in followed.err.splitlines()] == [False, True]
    assert (again.code, again.out) == (1, "backfill 1 ended as cancelled\n")


async def test_a_run_is_followed_to_its_end(cli: Cli, two: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails() -> None:
        await two.history.clock("mine_a")
        for attempt in await two.history.attempts_begin():
            await two.history.attempt_ends(attempt.submission_id, "failed", "boom")

    await cli("runs", "cancel", "mine_a", "r")
    monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=lambda _: anyio.from_thread.run(fails)))
    with anyio.fail_after(60):
        followed = await cli("runs", "trigger", "mine_a", "--run-id", "x", "--wait")

    assert (followed.code, followed.out) == (1, "triggered mine_a x\n"), followed.err
    says = [line.partition("Z  ")[2] or line for line in followed.err.splitlines()]
    assert says[-3:] == ["failed, 2 of 2 tasks ended", "task first failed: boom", "task second upstream_failed"], says


async def test_a_cancelled_run_waits_for_the_kill_of_its_attempts(cli: Cli, two: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await two.history.clock("mine_a")
    (attempt,) = await two.history.attempts_begin()
    killed = partial(two.history.attempt_ends, attempt.submission_id, "killed", "cancelled")
    monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=lambda _: anyio.from_thread.run(killed)))

    with anyio.fail_after(60):
        answer = await cli("runs", "cancel", "mine_a", "r", "--wait")

    assert (answer.code, answer.out) == (0, "cancelled mine_a r\n")
    assert answer.err.endswith("Z  waiting for the kill of try 1 of first\n")


async def test_runs_and_tasks_are_cleared(cli: Cli, two: Site) -> None:
    await two.history.clock("mine_a")
    await cli("runs", "cancel", "mine_a", "r")
    table = "RUN  LOGICAL DATE  STATE   TASKS\nr    -             failed  first, second\n"

    unasked = await cli("runs", "clear", "mine_a", "latest")
    refused = await cli("tasks", "clear", "mine_a", "r", "third", "--yes")
    others = await cli("runs", "clear", "other", "r", "--yes")
    one = await cli("tasks", "clear", "mine_a", "r", "first", "--no-downstream", "--yes", "--json")
    await cli("runs", "cancel", "mine_a", "r")
    async with two.program() as client:
        body = {"until": "2100-01-01T00:00:00Z", "shown": ["r", "s"]}
        stale = await client.post("/api/v1/dags/mine_a/clear", json=body)
    cleared = await cli("runs", "clear", "mine_a", "--until", "2100-01-01", "--yes")

    assert (unasked.code, unasked.out) == (2, table), unasked
    assert refused == (1, "", "tidegate: DAG 'mine_a' has no task 'third' in these runs; its tasks are first, second\n")
    assert others.err == "tidegate: anna may change the DAGs mine_*, not 'other'\n"
    assert one.json == {
        "dag_id": "mine_a",
        "runs": [
            {"run_id": "r", "logical_date": None, "state": "failed", "tasks": ["first"], "consumers": [], "backfill_id": None}
        ],
    }
    assert (stale.status_code, "('s' differs); show them again, and repeat" in stale.json()["detail"]) == (409, True)
    assert cleared == (0, f"{table}cleared 2 tasks of 1 run\n", "")


async def test_selected_runs_are_changed_but_those_of_dags_without_the_right(cli: Cli, two: Site) -> None:
    await two.history.clock("mine_a")

    cancelled = await cli("runs", "cancel", "--type", "manual", "--yes", "--json")
    cleared = await cli("runs", "clear", "--state", "failed", "--yes")
    moved = await cli("runs", "clear", "mine_a", "r", "--newest-version", "--cancel", "--yes")

    why = "anna may change the DAGs mine_*, not 'other'"
    refused = [{"dag_id": "other", "why": why}]
    assert cancelled.json == {"dags": [{"dag_id": "mine_a", "cancelled": ["r"], "ended": []}], "refused": refused}
    assert (cancelled.code, cancelled.err) == (1, f"tidegate: runs of DAG 'other' were refused: {why}\n")
    assert (cleared.code, cleared.out.splitlines()[-1]) == (0, "cleared 2 tasks of 1 run")
    assert (moved.code, moved.out.splitlines()[-1]) == (0, "cleared 2 tasks of 1 run")
    assert [run["state"] for run in (await cli("runs", "list", "mine_a", "--tag", "none", "--json")).json] == []


async def test_dead_letters_are_replayed_and_discarded(cli: Cli, two: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await dead_letters.written(two.history)
    await two.history.database.run(inbox.insert_dead_letters, [dead_letters.letter(4, "invalid", b'{"uri": "lake://a"}')])
    because = ("--because", "a test", "--yes")

    assert await cli("deadletters", "replay", "4") == (1, "", "tidegate: anna has the role editor; this needs operator\n")
    monkeypatch.setenv("TIDEGATE_TOKEN", await two.token(Role.OPERATOR, user="olga"))
    monkeypatch.setattr(dead_letter_commands, "REQUEST_LETTERS", 1)
    assert await cli("deadletters", "discard", "--reason", "malformed", *because) == (0, "discarded 2 dead letters\n", "")
    assert (await cli("deadletters", "discard", "1", "3", *because, "--json")).json["already"] == [1, 3]
    assert await cli("deadletters", "replay", "4") == (0, "replayed dead letter 4\n", "")
    refused = await cli("deadletters", "replay", "2", "3")
    assert (refused.code, refused.out) == (1, "replayed no dead letters\n")
    assert refused.err.endswith("(and 1 more)\n")
    shown = (await cli("deadletters", "show", "1", "--json")).json
    assert (shown["closed_by"], shown["closed_because"]) == ("olga", "a test")


async def test_a_loss_is_settled_and_a_token_revoked(cli: Cli, two: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await two.history.database.run(losses.record, timeline="00000002", since=NOON, until=NOON, found_by="a daemon")
    await two.token(Role.VIEWER, user="ben")
    (ben,) = [token.id for token in await two.history.database.run(list_tokens) if token.username == "ben"]
    because = ("--because", "a test")

    assert (await cli("audit", "verify")).err == "tidegate: anna has the role editor; this needs operator\n"
    assert (await cli("tokens", "revoke", str(ben))).err == "tidegate: anna has the role editor; this needs admin\n"
    monkeypatch.setenv("TIDEGATE_TOKEN", await two.token(Role.ADMIN, user="olga"))
    settled = await cli("losses", "settle", "1", *because, "--json")
    assert settled.json == {"id": 1, "settled_by": "olga", "settled_because": "a test"}
    again = await cli("losses", "settle", "1", *because)
    assert again == (1, "", "tidegate: there is no open loss 1; `tidegate losses list --all` shows all\n")
    assert await cli("tokens", "revoke", str(ben)) == (0, f"revoked token {ben} of ben\n", "")
    monkeypatch.setattr(audit_log, "ENTRIES_AT_ONCE", 2)
    verified = await cli("audit", "verify", "--json")
    assert (verified.code, verified.json["problems"]) == (0, [])
    assert verified.json["number"] >= 4
    kept = f"{verified.json['number']}:{verified.json['head']}"
    later, other = [await cli("audit", "verify", "--kept", link) for link in (kept, f"3{kept[1:]}")]
    assert (later.code, other.code) == (0, 1)
    assert "does not have the kept hash" in other.err
    unknown = (1, "", f"tidegate: there is no token {ben} that is in use; `tidegate tokens list` shows all\n")
    assert await cli("tokens", "revoke", str(ben)) == unknown


async def test_a_task_is_marked_and_its_result_is_read(cli: Cli, two: Site) -> None:
    await two.history.clock("mine_a")
    assert (await cli("tasks", "mark", "mine_a", "r", "first", "success")).out == "marked first as success\n"
    assert "has no result" in (await cli("tasks", "result", "mine_a", "r", "first")).err
    assert (await cli("dags", "delete", "mine_a", "--yes")).code == 1
    assert (await cli("dags", "release", "other")).err == "tidegate: anna may change the DAGs mine_*, not 'other'\n"
    await two.history.file_absent("mine_a.py")
    await cli("runs", "mark", "mine_a", "r", "success")
    assert (await cli("dags", "delete", "mine_a", "--yes")).out == "deleted mine_a\n"


async def test_a_wrong_address_or_token_is_one_sentence(cli: Cli, two: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    away = await cli("--server", "http://127.0.0.1:1", "runs", "list")
    of_the_api = await cli("--server", f"{two.address}/api/v1/", "runs", "list", "mine_a", "--json")
    wrong = await cli("--server", "tide", "runs", "list")
    monkeypatch.setenv("TIDEGATE_TOKEN", "tdg_wrong")
    unknown = await cli("runs", "list")
    monkeypatch.setenv("TIDEGATE_TOKEN", "")
    missing = await cli("runs", "list")

    assert (away.code, away.err.partition(":")[2].partition(":")[0]) == (3, " http")
    assert (of_the_api.code, [run["run_id"] for run in of_the_api.json]) == (0, ["r"])
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
async def test_a_list_without_an_end_and_a_page_of_another_shape_are_refused(cli: Cli, proxy: str) -> None:
    refused = await cli("--server", proxy, "dags", "errors")
    pages = [await cli("--server", proxy, *why, "mine_a") for why in (("dags", "why-not"), ("tasks", "why-not", "mine_a", "r"))]

    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"tidegate: {proxy} gave a cursor of /import-errors twice: the list has no end")
    assert [page.code for page in pages] == [1, 1]
    said = f"tidegate: {proxy} gave an answer that cannot be read (Object missing required field"
    assert all(page.err.startswith(said) for page in pages), pages


async def test_a_conf_that_does_not_fit_is_said_as_with_the_database(cli: Cli, two: Site) -> None:
    content = 'from tidegate import Dag, Param\nwith Dag("mine_p", params={"day": Param(type="string")}): pass\n'
    await two.history.file(content, "mine_p.py")

    one = await cli("runs", "trigger", "mine_p", "--conf", '{"day": 1}')
    two_of_them = await cli("runs", "trigger", "mine_p", "--conf", '{"dya": 1}')

    said = "tidegate: the conf does not fit DAG 'mine_p':"
    assert one == (1, "", f"{said} param 'day': 1 is not of type 'string'; write a value of the type string\n")
    absent = "param 'day' has no default and must be given"
    assert two_of_them == (1, "", f"{said}\n  there is no param 'dya'; did you mean day?\n  {absent}\n")


async def test_a_wrong_token_is_answered_with_the_command_that_makes_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_TOKEN", "wrong")

    answer = await cli("dags", "list")

    assert answer.err.endswith("`Authorization: Bearer …`; set TIDEGATE_TOKEN: `tidegate tokens create` makes a token\n")
