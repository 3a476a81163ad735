"""A held DAG in `tidegate dags`: that it is held, why, since when, and what releases it."""

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tidegate.schemas.queries import holds

REASON = "its version 1 cannot be read: ValidationError: Object missing required field"
UNREADABLE = "UPDATE dag_version SET spec = '{}'"


@pytest.fixture
async def held(history: History) -> History:
    """One DAG, whose version is unreadable, and which is held."""
    await history.file()
    await history.database.pool.execute(UNREADABLE)
    assert await history.database.run(holds.hold, {"daily_delays": REASON}) == ["daily_delays"]
    return history


async def test_the_list_shows_that_a_dag_is_held(cli: Cli, held: History) -> None:
    answer = await cli("dags", "list")

    assert answer.rows[1][:3] == ["daily_delays", "held", "1"]


async def test_the_list_shows_a_dag_with_an_unreadable_version(cli: Cli, history: History) -> None:
    await history.file()
    await history.database.pool.execute(UNREADABLE)

    assert (await cli("dags", "list")).rows[1][:3] == ["daily_delays", "active", "1"]


async def test_why_not_says_why_since_when_and_what_releases_it(cli: Cli, held: History) -> None:
    answer = await cli("dags", "why-not", "daily_delays")

    assert f"the DAG to be released from its hold: {REASON} (hold)" in answer.out
    assert "hold  closed  0s   file daily.py\n" in answer.out
    assert "correct daily.py, or release the DAG once the cause is gone" in answer.out
    assert "tidegate dags release daily_delays\n" in answer.out


@pytest.mark.parametrize("command", [("pause",), ("unpause",)])
async def test_a_request_about_a_held_dag_is_refused_with_the_reason(cli: Cli, held: History, command: tuple[str, ...]) -> None:
    answer = await cli("dags", *command, "daily_delays")

    assert answer.code == 1
    assert "DAG 'daily_delays' is held since 20" in answer.err
    assert REASON in answer.err
    assert "`tidegate dags why-not daily_delays` says what releases it" in answer.err


async def test_a_released_dag_is_held_no_longer(cli: Cli, held: History) -> None:
    answer = await cli("dags", "release", "daily_delays")

    assert (answer.code, answer.out) == (0, "released daily_delays\n")
    assert (await cli("dags", "list")).rows[1][1] == "active"


async def test_a_dag_that_is_not_held_cannot_be_released(cli: Cli, history: History) -> None:
    await history.file()

    answer = await cli("dags", "release", "daily_delays")

    assert (answer.code, answer.err) == (
        1,
        "tidegate: no DAG 'daily_delays' is held; `tidegate dags list` shows the state of each DAG\n",
    )
