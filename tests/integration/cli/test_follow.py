"""Following a run through outages of Postgres."""

from typing import Any

import anyio
import pytest

from tests.integration.cli.conftest import Cli, Printed
from tests.integration.cli.history import History
from tests.servers import StartPostgres
from tests.tokens import make_known
from tests.waiting import until
from tidegate.daemon.cli.pages import follow as pages
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
    cli: Cli, printed: Printed, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, looks, look = history.database, 0, pages.print_waiting

    def count(found: str, before: str) -> str:
        nonlocal looks
        looks += 1
        return look(found, before)

    monkeypatch.setattr(pages, "print_waiting", count)
    monkeypatch.setattr(pages, "PATIENCE_S", 0.0)
    await history.file(MISSING)
    await apply_request(database, RunRequested(dag_id="stuck", run_id="a", conf={}))
    run = await database.run(find_run, "stuck", "a")

    async with anyio.create_task_group() as tg:
        tg.start_soon(follow, database, run, SETTINGS)
        await until(lambda: looks > 2, 60)
        tg.cancel_scope.cancel()

    assert printed.take()[1].count("task only waits: pool 'reprots'") == 1
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


async def test_following_goes_on_when_postgres_is_back(own_postgres: StartPostgres, printed: Printed) -> None:
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
                await printed.until_said("waiting for Postgres")
                await server.start()
                (attempt,) = await history.attempts_begin()
                await history.attempt_ends(attempt.submission_id, "failed", "boom")

    said = printed.take()[1]
    assert [row.state for row in ended] == ["failed"]
    assert said.count("waiting for Postgres") == 1
    assert said.endswith("task only failed: boom\n")
