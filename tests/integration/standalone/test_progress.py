"""What a standalone shows of runs."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from io import StringIO

import pytest
from rich.console import Console

from tests.integration.cli.history import DAEMON, History
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.standalone import progress
from tidegate.daemon.standalone.command import EXAMPLE_DAGS
from tidegate.daemon.standalone.progress import Lines, Runs, table
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunEventRow

USERS = """
from tidegate import Dag, Dataset
with Dag("of_a_user", schedule=Dataset("lake://flights")) as dag: dag.command("wait", ["true"], pool="missing")
"""
ROLLING = """
from tidegate import Dag, Dataset
with Dag("rolling_report", schedule=Dataset("lake://delays"), fail_fast=True) as dag: dag.command("roll", ["true"])
"""
now = partial(datetime.now, UTC)


@pytest.fixture
async def history(dsn: str) -> AsyncIterator[History]:
    async with connect(dsn, writer=DAEMON) as database:
        history = History(database)
        await history.file()
        await history.file(ROLLING, "rolling.py")
        yield history


async def test_the_example_does_not_wait_for_runs_of_other_dags(history: History) -> None:
    await history.file(USERS, "users.py")
    await history.run()

    found = await history.database.run(Runs(EXAMPLE_DAGS).read)

    assert [shown.run.dag_id for shown in found] == ["daily_delays"]


async def test_a_line_tells_the_day_the_task_and_its_end(history: History) -> None:
    runs = Runs(EXAMPLE_DAGS)
    lines = Lines(await history.database.run(runs.read), now)
    await history.run()
    await history.worked()

    first = lines.new(await history.database.run(runs.read))
    await history.worked()
    await history.relayed()
    rest = lines.new(await history.database.run(runs.read))
    again = lines.new(await history.database.run(runs.read))

    assert [line.split()[:4] for line in first] == [["2013-01-01", "daily_delays", "join", "success"]]
    assert [line.split()[:4] for line in rest] == [
        ["2013-01-01", "daily_delays", "report", "success"],
        ["2013-01-01", "daily_delays", "done", "success"],
        ["2013-01-01", "daily_delays", "(3", "tasks)"],
    ]
    assert again == []


async def test_what_is_no_longer_listed_is_forgotten(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standalone may run for months."""
    monkeypatch.setattr(progress, "LISTED", 1)
    runs, lines = Runs(), Lines((), now)
    await history.run()
    for _ in range(2):
        await history.worked()
        lines.new(await history.database.run(runs.read))
    await history.relayed()
    lines.new(await history.database.run(runs.read))

    assert {dag_id for dag_id, *_ in (*runs._days, *runs._ended, *lines._said)} == {"rolling_report"}


async def test_the_day_of_a_run_is_that_of_the_run_that_made_its_event(history: History) -> None:
    await history.run()
    await history.worked()
    await history.worked()
    await history.relayed()

    found = await history.database.run(Runs().read)

    assert [(shown.run.dag_id, shown.when) for shown in found] == [
        ("rolling_report", "2013-01-01"),
        ("daily_delays", "2013-01-01"),
    ]


async def test_a_run_that_failed_is_told_with_the_command_that_says_why(history: History) -> None:
    runs = Runs(tasks=False)
    lines = Lines(await history.database.run(runs.read), now)
    await history.updated("lake://delays", extra={"day": "2013-01-02"})
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, "failed", "no memory")
    found = await history.database.run(runs.read)

    (line,) = lines.new(found)

    assert line.startswith("2013-01-02  rolling_report  (1 task)    failed")
    assert line.endswith(f"; `tidegate runs show rolling_report {found[0].run.run_id}` says why")


async def test_the_table_shows_days_and_the_tasks_at_work(history: History) -> None:
    await history.run()
    await history.attempts_begin()
    console = Console(width=100, record=True, file=StringIO())

    console.print(table(await history.database.run(Runs(EXAMPLE_DAGS).read), now()))

    (row,) = (line for line in console.export_text().splitlines() if "daily_delays" in line)
    assert [cell.strip() for cell in row.split("│")][1:5] == ["2013-01-01", "daily_delays", "running", "0/3"]


async def test_days_from_outside_do_not_control_the_terminal(history: History) -> None:
    runs, console = Runs(), Console(width=100, record=True, file=StringIO())
    lines = Lines(await history.database.run(runs.read), now)
    await history.updated("lake://delays", extra={"day": "\x1b]0;title\x07[/x]"})
    (attempt,) = await history.attempts_begin()
    await history.attempt_ends(attempt.submission_id, "failed", "no memory")
    found = await history.database.run(runs.read)

    console.print(table(found, now()))

    shown = r"\x1b]0;title\x07[/x]"
    assert shown in console.export_text()
    assert [line.startswith(f"{shown}  rolling_report") for line in lines.new(found)] == [True, True]


async def test_each_run_upstream_is_asked_once_and_not_too_many(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    await history.run()
    await history.worked()
    await history.worked()
    await history.relayed()
    asked: list[str] = []
    events_of = run_pages.events_of

    async def twice(db: Db, dag_id: str, run_id: str) -> list[RunEventRow]:
        asked.append(dag_id)
        return await events_of(db, dag_id, run_id) * 2

    monkeypatch.setattr(run_pages, "events_of", twice)
    rolling = (await history.database.run(Runs(["rolling_report"]).read))[0].run

    assert asked == ["rolling_report", "daily_delays"]
    assert await history.database.run(partial(progress.days_of, dag_id=rolling.dag_id, run_id=rolling.run_id)) == {"2013-01-01"}
    monkeypatch.setattr(progress, "ASKED", 1)
    assert await history.database.run(partial(progress.days_of, dag_id=rolling.dag_id, run_id=rolling.run_id)) == set()
