"""`tidegate pools` on a real database."""

import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tidegate.daemon import pools
from tidegate.daemon.pool_file import TOO_LARGE
from tidegate.schemas.queries import pools as queries
from tidegate.schemas.queries.db import Db

WIDE = """
from tidegate import Dag
with Dag("wide") as dag:
    dag.command("big", ["true"], pool="reports", pool_slots=2)
    dag.command("small", ["true"], pool="reports")
    dag.command("other", ["true"])
"""


async def test_p22_pools_are_listed_with_what_takes_their_slots_and_what_waits_for_them(cli: Cli, history: History) -> None:
    await cli("pools", "set", "reports", "2")
    await history.file(WIDE)
    await cli("runs", "trigger", "wide")
    await history.attempts_begin()
    await history.admitted("reports")

    answer = await cli("pools", "list")

    assert answer.rows == [
        ["POOL", "SLOTS", "RUNNING", "QUEUED", "WAITING", "OPEN"],
        ["default_pool", "128", "1", "0", "0", "127"],
        ["reports", "2", "0", "2", "1", "0"],
    ]


async def test_pools_are_one_json_array(cli: Cli) -> None:
    await cli("pools", "set", "any", "-1")

    answer = await cli("pools", "list", "--json")

    counts = {"running": 0, "queued": 0, "waiting": 0, "waiting_tasks": 0, "waits_since": None}
    assert answer.json == [
        {"name": "any", "slots": -1, **counts, "open": None},
        {"name": "default_pool", "slots": 128, **counts, "open": 128},
    ]


async def test_a_pool_that_tasks_wait_for_and_does_not_exist_is_reported(cli: Cli, history: History) -> None:
    await history.file(WIDE)
    await cli("runs", "trigger", "wide")

    answer = await cli("pools", "list", "--json")

    assert [pool["name"] for pool in answer.json] == ["default_pool"]
    assert answer.err == "2 tasks wait for pool 'reports', which does not exist; create it with `tidegate pools set`\n"


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        ("1", "reports: 1 slot, was 4\n"),
        ("8", "reports: 8 slots, was 4\n"),
        ("4", "reports: 4 slots, as before\n"),
        ("-1", "reports: unlimited slots, was 4\n"),
    ],
)
async def test_a_pool_is_created_and_changed(cli: Cli, slots: str, said: str) -> None:
    created = await cli("pools", "set", "reports", "4")
    changed = await cli("pools", "set", "reports", slots)

    assert created == (0, "created reports: 4 slots\n", "")
    assert changed == (0, said, "")


async def test_a_changed_pool_is_one_json_object(cli: Cli) -> None:
    answers = [await cli("pools", "set", "reports", slots, "--json") for slots in ("4", "-1")]

    assert [answer.json for answer in answers] == [
        {"name": "reports", "slots": 4, "slots_before": None},
        {"name": "reports", "slots": -1, "slots_before": 4},
    ]


async def test_who_changed_a_pool_is_recorded(cli: Cli, history: History) -> None:
    for slots in ("4", "4", "0"):
        await cli("pools", "set", "reports", slots)
    await cli("pools", "delete", "reports")

    rows = await history.database.run(lambda db: db.fetch("SELECT who, what, object, details FROM audit_log ORDER BY id"))

    assert [(row["what"], row["object"], row["details"]) for row in rows] == [
        ("created a pool", "pool reports", {"slots": 4, "slots_before": None}),
        ("changed a pool", "pool reports", {"slots": 0, "slots_before": 4}),
        ("deleted a pool", "pool reports", {"slots_before": 0}),
    ]
    assert all(row["who"].endswith("@worker-1") for row in rows)


async def test_a_pool_that_another_user_creates_meanwhile_is_changed(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, database = queries.lock_slots, history.database

    async def lock_before(db: Db, name: str) -> int | None:
        before = await lock(db, name)
        await database.pool.execute("INSERT INTO pool (name, slots) VALUES ($1, 5) ON CONFLICT DO NOTHING", name)
        return before

    monkeypatch.setattr(queries, "lock_slots", lock_before)

    assert await pools.set_slots(database, "anna", "reports", 2) == 5
    (entry,) = await database.pool.fetch("SELECT what, details FROM audit_log WHERE object = 'pool reports'")
    assert tuple(entry) == ("changed a pool", {"slots": 2, "slots_before": 5})


async def test_more_slots_wake_the_daemons(cli: Cli, dsn: str) -> None:
    heard: list[object] = []
    listener = await asyncpg.connect(dsn)
    await listener.add_listener("tidegate", lambda *said: heard.append(said[3]))

    await cli("pools", "set", "reports", "4")

    await listener.execute("SELECT 1")
    await listener.close()
    assert heard == ["ADMIT"]


async def test_new_slots_are_given_away(cli: Cli, history: History) -> None:
    await history.file(WIDE)
    await cli("runs", "trigger", "wide")
    await cli("pools", "set", "reports", "2")
    await history.admitted("reports")

    await cli("pools", "set", "reports", "3")
    await history.admitted("reports")

    (_, reports) = (await cli("pools", "list", "--json")).json
    assert (reports["queued"], reports["waiting"], reports["open"]) == (3, 0, 0)


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J", "x" * 251, "x/queue", ".."])
async def test_a_name_that_cannot_be_one_is_wrong_usage(cli: Cli, name: str) -> None:
    answer = await cli("pools", "set", name, "4")

    assert answer.code == 2
    assert answer.err.startswith("tidegate: invalid value for NAME: a name is 1 to 250 printable characters")


@pytest.mark.parametrize("name", ["a b", "Zürich/€", "a/queues", "-dashed", "x" * 250])
async def test_a_name_may_have_any_printable_character(cli: Cli, name: str) -> None:
    await cli("pools", "set", name, "4")

    assert name in [pool["name"] for pool in (await cli("pools", "list", "--json")).json]


@pytest.mark.parametrize("slots", ["-2", "many", "2147483648", "--jsno"])
async def test_a_number_of_slots_that_cannot_be_is_wrong_usage(cli: Cli, slots: str) -> None:
    answer = await cli("pools", "set", "reports", slots)

    assert answer.code == 2
    assert [pool["name"] for pool in (await cli("pools", "list", "--json")).json] == ["default_pool"]


async def test_p24_the_default_pool_may_change_but_not_go(cli: Cli) -> None:
    changed = await cli("pools", "set", "default_pool", "16")
    deleted = await cli("pools", "delete", "default_pool")

    assert changed.out == "default_pool: 16 slots, was 128\n"
    assert deleted == (1, "", "tidegate: default_pool cannot be deleted: it is the pool of all tasks that name none\n")


async def test_a_pool_with_tasks_in_it_stays(cli: Cli, history: History) -> None:
    await cli("pools", "set", "reports", "2")
    await history.file(WIDE)
    await cli("runs", "trigger", "wide")
    await history.admitted("reports")

    answer = await cli("pools", "delete", "reports")

    assert answer == (
        1,
        "",
        "tidegate: 2 tasks are in pool 'reports', active or waiting; delete it when they have ended\n",
    )


async def test_a_pool_whose_tasks_have_ended_goes_and_says_who_will_miss_it(cli: Cli, history: History) -> None:
    await cli("pools", "set", "reports", "3")
    await history.file(WIDE)

    answer = await cli("pools", "delete", "reports")

    assert answer == (0, "deleted reports\n", "tasks of wide still name the pool; they wait until it exists again\n")


async def test_a_pool_that_a_backfill_names_stays_until_the_backfill_has_ended(cli: Cli, history: History) -> None:
    await cli("pools", "set", "reports", "2")
    await history.file(
        'from tidegate import Dag\nwith Dag("d", schedule="@daily", run_immediately=False) as dag:\n    dag.empty("a")\n'
    )
    created = await cli("backfills", "create", "d", "--from", "2013-01-01", "--to", "2013-01-02", "--pool", "reports")
    assert created.err == ""

    refused = await cli("pools", "delete", "reports")
    await history.database.pool.execute("UPDATE backfill SET state = 'cancelled'")
    deleted = await cli("pools", "delete", "reports")

    instead = "`tidegate backfills set 1 --pool NAME` moves its tasks to another pool, or delete the pool when it has ended"
    assert refused == (1, "", f"tidegate: backfill 1 runs its tasks in pool 'reports'; {instead}\n")
    assert deleted == (0, "deleted reports\n", "")


async def test_a_deleted_pool_is_one_json_object(cli: Cli) -> None:
    await cli("pools", "set", "reports", "3")

    answer = await cli("pools", "delete", "reports", "--json")

    assert answer == (0, answer.out, "")
    assert answer.json == {"name": "reports", "dags": []}


async def test_a_pool_that_does_not_exist_is_answered_with_those_there_are(cli: Cli) -> None:
    await cli("pools", "set", "reports", "3")

    answer = await cli("pools", "delete", "nope")

    assert answer == (1, "", "tidegate: there is no pool 'nope'; the pools are default_pool, reports\n")


async def test_pools_are_made_as_a_file_has_them(cli: Cli, history: History, tmp_path: Path) -> None:
    """A pool that cannot be deleted keeps the others from nothing."""
    for pool in ("reports", "spare", "kept"):
        await cli("pools", "set", pool, "2")
    await history.file(WIDE)
    await cli("runs", "trigger", "wide")
    await history.admitted("reports")
    file = tmp_path / "pools.toml"
    file.write_text("[pools]\nkept = 2\netl = -1\ndefault_pool = 64\n")

    planned = await cli("pools", "apply", str(file), "--prune", "--dry-run", "--json")
    applied = await cli("pools", "apply", str(file), "--prune")
    again = await cli("pools", "apply", str(file))

    assert (planned.code, [(it["name"], it["slots_before"], it["slots"]) for it in planned.json]) == (
        4,
        [("default_pool", 128, 64), ("etl", None, -1), ("reports", 2, None), ("spare", 2, None)],
    )
    assert (applied.code, applied.out.splitlines()) == (
        1,
        ["default_pool: 64 slots, was 128", "created etl: unlimited slots", "deleted spare"],
    )
    assert applied.err.startswith("reports: 2 tasks are in pool 'reports', active or waiting;")
    assert (again.code, again.out) == (0, "nothing changes: 3 pools are as the file has them\n")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("pools = [", "is no TOML: Invalid value (at end of document)"),
        ("[pools]\ncaf\udce9 = 4", "is no TOML: 'utf-8' codec can't decode byte 0xe9 in position 11"),
        ("pools = " + "[" * 5000, f": {TOO_LARGE}"),
        ("[pools]\nreports = " + "9" * 5000, f": {TOO_LARGE}"),
        ("[pools]\nreports = 0x" + "f" * 5000, f": {TOO_LARGE}"),
        ("[pools]\nreports = [0x" + "f" * 5000 + "]", f": {TOO_LARGE}"),
        ("reports = 4", ": there is no table 'reports'; pools are in the table [pools]"),
        ("[pool]\nreports = 4", ": there is no table 'pool'; did you mean pools?"),
        ("pools = 4", ": it has no table [pools], with a line such as reports = 4 for each pool"),
        ("[pools]\nreports = true", ": pool 'reports': slots are a number from 0 to 2147483647, or -1 for no limit, not True"),
        ("[pools]\nreports = -2", ": pool 'reports': slots are a number from 0 to 2147483647, or -1 for no limit, not -2"),
        ('[pools]\n"a/queue" = 1', ": pool 'a/queue': a name is 1 to 250 printable characters, is not . or .., and does not end"),
    ],
)
async def test_a_file_of_pools_with_a_mistake_changes_nothing(cli: Cli, tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "pools.toml"
    file.write_text(content, "utf-8", "surrogateescape")

    answer = await cli("pools", "apply", str(file))

    assert answer.code == 1
    assert f"{file}{'' if problem[0] == ':' else ' '}{problem}" in answer.err


def test_a_file_of_pools_is_read_as_utf_8_in_every_locale(tmp_path: Path) -> None:
    (tmp_path / "pools.toml").write_text('[pools]\n"größe" = 4\n', "utf-8")
    program = (
        "from pathlib import Path; from tidegate.daemon.pool_file import read_pools; print(ascii(read_pools(Path('pools.toml'))))"
    )
    ascii_only = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=ascii_only, capture_output=True, text=True, check=True
    )

    assert answer.stdout == "{'gr\\xf6\\xdfe': 4}\n"
