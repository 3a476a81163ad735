"""A held DAG in `tidegate dags`: that it is held, why, since when, and what releases it."""

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import DAILY, History
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
    assert answer.err == "held: daily_delays; `tidegate dags why-not daily_delays` says why, and what to do\n"


async def test_the_list_shows_a_dag_with_an_unreadable_version(cli: Cli, history: History) -> None:
    await history.file()
    await history.database.pool.execute(UNREADABLE)

    assert (await cli("dags", "list")).rows[1][:3] == ["daily_delays", "active", "1"]


async def test_the_runs_of_an_unreadable_version_are_listed(cli: Cli, history: History) -> None:
    await history.file()
    await history.run()
    await history.database.pool.execute("""UPDATE dag_version SET spec = '{"tasks": 7}'""")

    assert (await cli("runs", "list")).rows[1][0] == "daily_delays"


@pytest.mark.parametrize("since", ["infinity", "294276-12-31Z", "4713-01-01 BC"])
async def test_the_list_shows_a_dag_that_is_held_since_a_time_out_of_the_calendar(cli: Cli, held: History, since: str) -> None:
    await held.database.pool.execute(f"UPDATE dag SET held_since = '{since}'")

    assert (await cli("dags", "list")).rows[1][:3] == ["daily_delays", "held", "1"]


async def test_why_not_says_why_since_when_and_what_releases_it(cli: Cli, held: History) -> None:
    answer = await cli("dags", "why-not", "daily_delays")

    assert f"the DAG to be released from its hold: {REASON} (hold)" in answer.out
    assert "hold closed 0s file daily.py\n" in answer.timeless
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
    assert "if the fault is still there, it is held again: `tidegate dags why-not daily_delays` then says" in answer.err
    assert (await cli("dags", "list")).rows[1][1] == "active"


async def test_a_dag_that_is_not_held_cannot_be_released(cli: Cli, history: History) -> None:
    await history.file()

    answer = await cli("dags", "release", "daily_delays")

    assert (answer.code, answer.err) == (
        1,
        "tidegate: no DAG 'daily_delays' is held; `tidegate dags list` shows the state of each DAG\n",
    )


@pytest.fixture
async def former(history: History) -> History:
    """A run of the first version, which cannot be read, and the good second version; the DAG is held."""
    await history.file()
    await history.run()
    await history.attempts_begin()
    await history.file(DAILY.replace("Delays of a day", "Delays"))
    await history.database.pool.execute(f"{UNREADABLE} WHERE number = 1")
    await history.database.run(holds.hold, {"daily_delays": REASON})
    return history


async def test_a_run_of_an_unreadable_version_is_cancelled_as_why_not_says(cli: Cli, former: History) -> None:
    page = await cli("dags", "why-not", "daily_delays")
    (run_id,) = [row[0] for row in await former.database.pool.fetch("SELECT run_id FROM dag_run")]
    answers = [await cli("runs", "cancel", "daily_delays", run_id), await cli("dags", "release", "daily_delays")]

    assert f"cancel {run_id}, whose version is not the current one, if that is the fault; then release the DAG" in page.out
    assert f"tidegate runs cancel daily_delays {run_id}\n" in page.out
    assert [answer.code for answer in answers] == [0, 0]
    assert [row[0] for row in await former.database.pool.fetch("SELECT state::text FROM dag_run")] == ["failed"]
    assert (await cli("dags", "list")).rows[1][1] == "active"


async def test_a_run_that_a_held_dag_lacks_is_named(cli: Cli, former: History) -> None:
    answer = await cli("runs", "cancel", "daily_delays", "manual__2026")

    assert (answer.code, answer.err) == (
        1,
        "tidegate: DAG 'daily_delays' has no run 'manual__2026'; `tidegate runs list daily_delays` shows all\n",
    )


async def test_a_held_dag_in_no_file_is_deleted_after_its_runs_are_cancelled(cli: Cli, former: History) -> None:
    await former.file_absent()

    early = await cli("dags", "delete", "daily_delays", "--yes")
    await cli("runs", "cancel", "daily_delays", "latest")
    late = await cli("dags", "delete", "daily_delays", "--yes")

    assert (early.code, late.code) == (1, 0), (early.err, late.err)
    assert "`tidegate runs cancel daily_delays RUN` ends them" in early.err
