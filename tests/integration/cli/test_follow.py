"""Following a run through outages of Postgres."""

from typing import Any

import anyio
import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tests.servers import StartPostgres
from tests.tokens import make_known
from tidegate.daemon.cli.pages.follow import follow
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.read_model.lookup import find_run
from tidegate.daemon.request import apply_request
from tidegate.daemon.settings import Settings
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.message import RunRequested
from tidegate.schemas.queries.run_pages import RunRow

SOURCE = """
from tidegate import Dag
with Dag("single") as dag:
    dag.command("only", ["true"])
"""

SETTINGS = Settings(postgres_dsn="unused", kafka_servers="unused")

MISSING = """
from tidegate import Dag
with Dag("stuck") as dag:
    dag.command("only", ["true"], pool="reprots")
"""


@pytest.mark.usefixtures("a_daemon")
async def test_a_run_that_does_not_progress_says_what_it_waits_for(
    cli: Cli, history: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = history.database
    monkeypatch.setattr("tidegate.daemon.cli.pages.follow.PATIENCE_S", 0.0)
    await history.file(MISSING)
    await apply_request(database, RunRequested(dag_id="stuck", run_id="a", conf={}))
    run = await database.run(find_run, "stuck", "a")

    with anyio.move_on_after(1):
        await follow(database, run, SETTINGS)

    assert capsys.readouterr().err.count("task only waits: pool 'reprots'") == 1
    shown = (await cli("runs", "show", "stuck", "a")).out
    assert "`tidegate runs show stuck a --progress` says what scheduled tasks wait for\n" in shown


async def test_failed_tasks_are_read_once_postgres_is_back(
    history: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database, outages = history.database, [UnavailableError("it is away", server="Postgres")]
    await history.file(SOURCE)
    await apply_request(database, RunRequested(dag_id="single", run_id="a", conf={}))
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, "failed", "boom")
    run, read = await database.run(find_run, "single", "a"), database.run

    async def once_away(work: Any, *args: Any) -> Any:
        if outages:
            raise outages.pop()
        return await read(work, *args)

    monkeypatch.setattr("tidegate.daemon.cli.pages.follow.AWAY_POLL_S", 0.0)
    monkeypatch.setattr(database, "run", once_away)
    await follow(database, run, SETTINGS)

    assert capsys.readouterr().err.endswith("waiting for Postgres (it is away)\ntask only failed: boom\n")


async def test_following_goes_on_when_postgres_is_back(own_postgres: StartPostgres, capsys: pytest.CaptureFixture[str]) -> None:
    server = await own_postgres()
    await migrate(server.dsn)
    await make_known(server.dsn)
    async with connect(server.dsn) as database:
        history = History(database)
        await history.file(SOURCE)
        await apply_request(database, RunRequested(dag_id="single", run_id="a", conf={}))
        run = await database.run(find_run, "single", "a")
        await server.kill()
        ended: list[RunRow] = []

        async def watch() -> None:
            ended.append(await follow(database, run, SETTINGS))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tg:
                tg.start_soon(watch)
                await anyio.sleep(1)
                await server.start()
                (attempt,) = await history.attempts_begin()
                await history.attempt_ends(attempt.submission_id, "failed", "boom")

    said = capsys.readouterr().err
    assert [row.state for row in ended] == ["failed"]
    assert said.count("waiting for Postgres") == 1
    assert said.endswith("task only failed: boom\n")
