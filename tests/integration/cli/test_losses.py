"""`tidegate losses`, and the reminder of it in every other command."""

from datetime import UTC, datetime
from functools import partial

import anyio
import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import DAEMON, History
from tests.waiting import until_at_locks
from tidegate.schemas.queries import losses

SINCE, UNTIL = datetime(2026, 11, 22, 11, 25, 2, tzinfo=UTC), datetime(2026, 11, 22, 11, 25, 9, tzinfo=UTC)
REMINDER = "Postgres has lost acknowledged commits; `tidegate losses list` shows when\n"


@pytest.fixture
async def loss(history: History) -> None:
    """Found out by two daemons."""
    for until in (SINCE, UNTIL):
        await history.database.run(losses.record, timeline="00000002", since=SINCE, until=until, found_by=DAEMON)


async def test_nothing_was_lost(cli: Cli) -> None:
    assert await cli("losses", "list") == (0, "", "no commits were lost\n")


async def test_a_loss_is_listed_and_every_command_reminds_of_it(cli: Cli, loss: None) -> None:
    listed, other = await cli("losses", "list", "--json"), await cli("pools", "list")

    (row,) = listed.json
    assert (row["id"], row["timeline"], row["found_by"]) == (1, "00000002", DAEMON)
    assert [datetime.fromisoformat(row[name]) for name in ("since", "until")] == [SINCE, UNTIL]
    assert (other.code, other.err) == (0, REMINDER)


async def test_a_loss_that_is_settled_is_on_record_and_gives_no_more_warnings(cli: Cli, history: History, loss: None) -> None:
    settled = await cli("losses", "settle", "1", "--because", "looked through")
    after, all_ = await cli("losses", "list"), await cli("losses", "list", "--all", "--json")

    assert settled == (0, "loss 1 is settled\n", REMINDER)
    assert after == (0, "", "no commits were lost\n")
    assert [row["settled_because"] for row in all_.json] == ["looked through"]
    assert await history.database.pool.fetchval("SELECT what || ': ' || object FROM audit_log") == (
        "settled a loss of commits: loss 1"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("2", "--because", "x"), 1, "there is no open loss 2; `tidegate losses list --all` shows all"),
        (("1", "--because", " "), 2, "invalid value for --because: write a few words that say why"),
    ],
)
async def test_what_cannot_be_settled(cli: Cli, loss: None, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    answer = await cli("losses", "settle", *arguments)

    assert answer.code == code
    assert sentence in answer.err


async def test_runs_at_work_leave_numbers_out_once(history: History) -> None:
    await history.file()
    await history.run()
    (before,) = await history.database.pool.fetch("SELECT state_seq, task_seq FROM dag_run")
    for until in (SINCE, UNTIL):
        await history.database.run(losses.record, timeline="00000002", since=SINCE, until=until, found_by=DAEMON)

    (after,) = await history.database.pool.fetch("SELECT state_seq, task_seq FROM dag_run")

    assert [number - losses.SKIPPED for number in after] == list(before)


async def test_no_numbers_are_left_out_while_a_decision_about_the_dag_is_made(history: History) -> None:
    """It starts queued runs with the numbers that it has read, under the lock of the DAG alone."""
    await history.file()
    await history.run()
    record = partial(losses.record, timeline="00000002", since=SINCE, until=UNTIL, found_by=DAEMON)

    async with history.database.pool.acquire() as elsewhere, anyio.create_task_group() as tg, elsewhere.transaction():
        await elsewhere.execute("SELECT FROM dag FOR NO KEY UPDATE")
        tg.start_soon(history.database.run, record)
        await until_at_locks(history.database, 1)

    assert await history.database.pool.fetchval("SELECT state_seq FROM dag_run") > losses.SKIPPED
