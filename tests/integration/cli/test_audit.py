"""`tidegate audit` on a real database."""

from collections import Counter
from typing import Any

import asyncpg
import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tidegate.daemon.cli.commands import audit as commands
from tidegate.daemon.identity import credentials
from tidegate.daemon.permissions import Caller, Role
from tidegate.daemon.read_model import audit_log as read_model
from tidegate.daemon.read_model.audit_log import verify
from tidegate.schemas.queries import audit_log


@pytest.fixture
async def entries(cli: Cli) -> None:
    """Three entries."""
    for slots in (1, 2, 3):
        await cli("pools", "set", "p", str(slots))


async def test_entries_are_listed_newest_first(cli: Cli, entries: None) -> None:
    rows = (await cli("audit", "list", "--json")).json
    assert [row["details"]["slots"] for row in rows] == [3, 2, 1]
    assert (await cli("audit", "list", "--object", "q")).err == "there are no such entries\n"
    first, all_ = [await cli("audit", "list", "--who", rows[0]["who"], "-n", number, "--json") for number in ("2", "3")]
    assert ([len(answer.json) for answer in (first, all_)], all_.err) == ([2, 3], "")
    assert first.err == "these are the newest 2 of more; --limit prints more of them, --until older ones\n"


async def test_the_entries_about_a_dag_are_those_about_its_runs_too(cli: Cli, history: History) -> None:
    for name in ("DAG a, run_id r, task_id t", "DAG a", "DAG a, run_id r", "DAG ab", "DAG a+, run_id r"):
        await history.database.run(audit_log.record, "anna", "did it", name, {})

    found = {name: (await cli("audit", "list", "--object", name, "--json")).json for name in ("DAG a", "DAG a, run_id r", "DAG")}

    assert {name: [entry["id"] for entry in entries] for name, entries in found.items()} == {
        "DAG a": [3, 2, 1],
        "DAG a, run_id r": [3, 1],
        "DAG": [],
    }


FLOW = 'from tidegate import Dag\nwith Dag("flow") as dag: dag.command("a", ["true"], retries=1)\n'

ACTS: tuple[tuple[str, tuple[str, ...], str, dict[str, Any]], ...] = (
    ("runs trigger", ("flow", "--run-id", "r"), "triggered a run", {"conf": {}}),
    ("tasks mark", ("flow", "r", "a", "failed"), "marked a task", {"state": "failed"}),
    ("runs clear", ("flow", "r", "--only-failed", "--yes"), "cleared failed tasks", {"only_failed": True}),
    ("runs cancel", ("flow", "r"), "cancelled a run", {"state": "failed"}),
    ("runs mark", ("flow", "r", "success"), "marked a run", {"state": "success"}),
    ("dags pause", ("flow",), "paused a DAG", {"is_paused": True}),
    ("dags unpause", ("flow",), "unpaused a DAG", {"is_paused": False}),
    ("dags delete", ("flow", "--yes"), "deleted a DAG", {}),
)
"""Commands that change DAGs and runs, with what the log says of them."""


async def test_a_change_by_a_command_is_an_entry_of_its_transaction(cli: Cli, history: History) -> None:
    await history.file(FLOW, "flow.py")
    for command, args, *_ in ACTS:
        if command == "dags delete":
            await history.file_absent("flow.py")
        answer = await cli(*command.split(), *args)
        assert answer.code == 0, answer.err
    refused = await cli("runs", "cancel", "flow", "r")

    rows = (await cli("audit", "list", "--json")).json[::-1]
    assert refused.code == 1
    assert [
        (row["what"], {name: row["details"]["body"][name] for name in body}) for row, (*_, body) in zip(rows, ACTS, strict=True)
    ] == [(what, body) for _, _, what, body in ACTS]
    assert {row["object"] for row in rows} == {"DAG flow", "DAG flow, run_id r", "DAG flow, run_id r, task_id a"}
    assert all("@" in row["who"] for row in rows)


async def test_an_unchanged_log_is_verified(cli: Cli, entries: None) -> None:
    answer = await cli("audit", "verify")
    said, link = answer.out.splitlines()
    await cli("pools", "set", "p", "4")
    later, unreadable = [await cli("audit", "verify", "--kept", kept) for kept in (link, link.partition(":")[2])]

    assert (answer.code, said) == (0, "3 entries are unchanged; keep elsewhere, for --kept of the next check:")
    assert (later.code, later.out.partition(";")[0]) == (0, "4 entries are unchanged")
    assert (unreadable.code, "is no NUMBER:HASH" in unreadable.err) == (2, True)


@pytest.mark.parametrize("more", [0, 2])
async def test_a_link_that_was_kept_shows_that_the_end_was_removed(cli: Cli, history: History, entries: None, more: int) -> None:
    """The chain alone is unbroken, also once it has as many links again."""
    link = (await cli("audit", "verify")).out.splitlines()[1]
    removal = "DELETE FROM audit_chain WHERE number > 1; DELETE FROM audit_log WHERE id > 1"
    await history.database.pool.execute(f"SET session_replication_role = replica; {removal}; RESET session_replication_role")
    for slots in range(more):
        await cli("pools", "set", "q", str(slots + 1))

    alone, compared = await cli("audit", "verify"), await cli("audit", "verify", "--kept", link)

    assert alone.code == 0
    assert (compared.code, compared.err) == (
        1,
        "tidegate: the audit log was changed: link 3 of the chain does not have the kept hash:"
        " entries were removed, or the chain was made anew\n",
    )


async def test_no_statement_of_a_check_reads_the_whole_log(
    history: History, entries: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of years would take longer than a statement may."""
    asked = Counter[str]()

    async def ask(query: Any) -> Any:
        asked[query.func.__name__] += 1
        return await history.database.autocommit(query)

    monkeypatch.setattr(audit_log, "ENTRIES_AT_ONCE", 2)

    assert (await verify(ask)).problems == []
    assert asked == {"verify_part": 5}


async def test_an_empty_log_is_verified(cli: Cli) -> None:
    assert await cli("audit", "verify") == (0, "the audit log is empty\n", "")
    assert (await cli("audit", "verify", "--json")).json == {"number": 0, "head": "", "problems": []}


@pytest.mark.parametrize("change", ["UPDATE audit_log SET who = 'eve'", "DELETE FROM audit_log", "TRUNCATE audit_log CASCADE"])
async def test_the_log_only_grows(history: History, entries: None, change: str) -> None:
    with pytest.raises(asyncpg.RaiseError, match="the audit log only grows"):
        await history.database.pool.execute(change)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("UPDATE audit_log SET who = 'eve' WHERE id = 2", "entry 2, or the chain before it, was changed"),
        ("UPDATE audit_log SET at = at - interval '1 s' WHERE id = 3", "entry 3, or the chain before it, was changed"),
        ("UPDATE audit_log SET details = '{}' WHERE id = 1", "entry 1, or the chain before it, was changed"),
        (
            "DELETE FROM audit_chain WHERE number = 2",
            "links before number 3 of the chain are missing; entry 2 is not in the chain",
        ),
        ("DELETE FROM audit_chain WHERE number = 3", "entry 3 is not in the chain"),
    ],
)
async def test_a_change_behind_its_back_is_found(
    cli: Cli, history: History, entries: None, monkeypatch: pytest.MonkeyPatch, change: str, problem: str
) -> None:
    """`session_replication_role` switches triggers off: a superuser can do that."""
    monkeypatch.setattr(audit_log, "ENTRIES_AT_ONCE", 2)
    await history.database.pool.execute(f"SET session_replication_role = replica; {change}; RESET session_replication_role")

    answer = await cli("audit", "verify")

    assert answer == (1, "", f"tidegate: the audit log was changed: {problem}\n")


async def test_the_message_names_the_first_problems(
    cli: Cli, history: History, entries: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "SHOWN", 1)
    change = "UPDATE audit_log SET who = 'eve'"
    await history.database.pool.execute(f"SET session_replication_role = replica; {change}; RESET session_replication_role")

    answer, listed = await cli("audit", "verify"), await cli("audit", "verify", "--json")

    first = "entry 1, or the chain before it, was changed"
    assert answer.err == f"tidegate: the audit log was changed: {first}; and 2 more, which --json lists\n"
    assert len(listed.json["problems"]) == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("UPDATE audit_log SET who = 'eve' WHERE id = 1", None),
        ("UPDATE audit_log SET who = 'eve' WHERE id = 3", "entry 3, or the chain before it, was changed"),
        ("DELETE FROM audit_log WHERE id = 3", "entry 3 is missing"),
        ("DELETE FROM audit_chain", "entry 1 is not in the chain"),
    ],
)
async def test_the_doctor_checks_the_newest_entries(
    cli: Cli, history: History, entries: None, monkeypatch: pytest.MonkeyPatch, change: str, problem: str | None
) -> None:
    monkeypatch.setattr(read_model, "NEWEST", 2)
    await history.database.pool.execute(f"SET session_replication_role = replica; {change}; RESET session_replication_role")

    problems = (await cli("doctor", "--json")).json["problems"]

    said = [text for text in problems if text.startswith("the audit log")]
    assert said == ([] if problem is None else [f"the audit log was changed: {problem}; `tidegate audit verify` says what else"])


async def test_an_entry_that_no_program_writes_is_listed(cli: Cli, history: History, entries: None) -> None:
    change = "UPDATE audit_log SET at = '-infinity', details = '[1]' WHERE id = 2"
    await history.database.pool.execute(f"SET session_replication_role = replica; {change}; RESET session_replication_role")

    table, rows = await cli("audit", "list"), (await cli("audit", "list", "--json")).json

    assert (table.code, table.err) == (0, "")
    assert [(row["id"], row["at"][:10] == "1900-01-01", row["details"].get("details")) for row in rows] == [
        (3, False, None),
        (2, True, [1]),
        (1, False, None),
    ]


async def test_concurrent_writers_make_one_chain(cli: Cli, history: History) -> None:
    write = "INSERT INTO audit_log (who, what, object) SELECT 'a', 'b', n::text FROM generate_series(1, 20) AS n"
    async with history.database.pool.acquire() as one, history.database.pool.acquire() as two:
        first, second = one.transaction(), two.transaction()
        await first.start()
        await second.start()
        await one.execute(write)
        await two.execute(write)
        await second.commit()
        await first.commit()

    assert (await cli("audit", "verify", "--json")).json["number"] == 40


async def test_the_sessions_of_a_user_are_ended(cli: Cli, history: History) -> None:
    login = credentials.Login("OpenID Connect", "10.0.0.7", "r")
    await history.database.run(credentials.begin_session, Caller("anna", Role.VIEWER), login)

    assert await cli("tokens", "log-out", "anna") == (0, "ended 1 sessions of anna\n", "")
    assert (await cli("tokens", "log-out", "anna", "--json")).json == {"username": "anna", "sessions": 0}
    assert [row["what"] for row in (await cli("audit", "list", "--json")).json] == [
        "ended sessions",
        "ended sessions",
        "logged in",
    ]
