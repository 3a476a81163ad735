"""Commands that only read answer over `--server` as with the database."""

import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from tests.integration.api.conftest import Cli
from tests.integration.cli import dead_letters
from tests.integration.cli.history import History
from tests.integration.cli.spools import begun, ended
from tests.integration.web.conftest import Site
from tidegate.daemon.api import tasks
from tidegate.daemon.cli.commands import task_logs
from tidegate.daemon.docs import generate
from tidegate.daemon.permissions import Role
from tidegate.daemon.postgres.server_clock import ServerClock
from tidegate.daemon.spark.spool import Spool

WAITING = """
from datetime import UTC, datetime
from tidegate import Dag, Dataset, cron
with Dag("waiting", schedule=Dataset("lake://a", where="rows > 0") & Dataset("lake://b")) as dag: dag.command("t", ["true"])
with Dag("stuck", schedule=Dataset("lake://c")) as dag: dag.command("t", ["true"], pool="nowhere")
with Dag("here", schedule=cron("0 6 * * *", timezone="Europe/Zurich"), start_date=datetime(2040, 1, 1, tzinfo=UTC)) as dag:
    dag.command("t", ["true"])
"""

LISTS: tuple[tuple[str, ...], ...] = (
    ("dags", "list"),
    ("dags", "show", "mine_a"),
    ("dags", "errors"),
    ("dags", "why-not", "mine_a"),
    ("dags", "why-not", "waiting"),
    ("dags", "history", "mine_a"),
    ("dags", "versions", "mine_a"),
    ("dags", "next", "mine_a", "-n", "3"),
    ("dags", "next", "here", "-n", "2", "--after", "2040-03-24"),
    ("dags", "next", "here", "--on", "2040-03-25"),
    ("runs", "list"),
    ("runs", "list", "mine_a", "--state", "queued", "--since", "2013-01-01", "-n", "1"),
    ("runs", "show", "mine_a", "latest"),
    ("runs", "show", "mine_a", "latest", "--progress"),
    ("runs", "show", "other", "r", "--progress"),
    ("runs", "explain", "mine_a", "latest"),
    ("tasks", "list", "mine_a", "r"),
    ("tasks", "why-not", "mine_a", "latest", "first"),
    ("tasks", "logs", "mine_a", "latest", "first"),
    ("datasets", "list"),
    ("datasets", "events", "lake://a"),
    ("datasets", "events", "lake://a", "-n", "1"),
    ("datasets", "events", "lake://none"),
    ("backfills", "list"),
    ("backfills", "create", "mine_a", "--from", "2013-01-01", "--to", "2013-01-03", "--dry-run", "-n", "1000"),
    ("pools", "list"),
    ("pools", "queue", "default_pool"),
    ("deadlines", "list", "--missed"),
    ("notifications", "list"),
    ("deadletters", "list", "--state", "all"),
    ("deadletters", "show", "1"),
    ("deadletters", "show", "2"),
    ("deadletters", "show", "3"),
    ("losses", "list", "--all"),
    ("daemons", "list"),
    ("topics", "halted"),
    ("topics", "ignored"),
)
"""Commands that only read."""

OF_ADMINS = (("audit", "list"), ("tokens", "list"))
"""Commands that only read what admins may see."""

REFUSED: tuple[tuple[str, ...], ...] = (
    ("dags", "why-not", "none"),
    ("dags", "next", "none"),
    ("dags", "next", "waiting"),
    ("dags", "next", "here", "--on", "2040-03-25T07:00"),
    ("dags", "next", "here", "--on", "2040-03-25T07:00", "--json"),
    ("tasks", "why-not", "mine_a", "r", "first", "3"),
    ("tasks", "logs", "mine_a", "r", "second"),
    ("tasks", "logs", "mine_a", "r", "third", "--follow"),
    ("tasks", "logs", "mine_a", "r", "first", "--try", "2"),
    ("tasks", "result", "mine_a", "r", "first"),
    ("datasets", "event", "77"),
    ("backfills", "show", "77"),
    ("backfills", "dates", "77"),
    ("dags", "source", "none"),
    ("doctor",),
    ("deadletters", "show", "77"),
)
"""Commands whose exit code is 1."""

A_SLOW_MACHINE = timedelta(minutes=5)
"""So long as it takes for all commands over `--server`: what is late only by then differs in the answers."""

SPAN = re.compile(r" +([\d.hm]+m?s\b)?")
"""Spaces, which line up columns, with a time that passes between two calls."""


UNEXAMINED = re.compile(r"not looked at: .*\n")
"""What the doctor could not look at, which differs in the answers."""


async def happened(history: History, spool: Path) -> None:
    """Something for each command to show: a log, two events of a dataset, dead letters."""
    await history.file(WAITING, "waiting.py")
    await history.clock("mine_a")
    (attempt,) = await history.attempts_begin()
    written = begun(spool, attempt.submission_id)
    written.log.write_bytes(b"caf\xc3\xa9." * 60_000)
    ended(written)
    await history.updated("lake://a", "1", {"rows": 0})
    await history.updated("lake://a", "2", {"rows": 1})
    await history.updated("lake://c", "1", {})
    await history.retention()
    await dead_letters.written(history)
    await history.published()


def test_each_command_that_only_reads_is_called() -> None:
    reading = {
        name for name, called in generate.calls_by_command().items() if {"listed", "shown"} & called and "changed" not in called
    }

    assert reading - {" ".join(command[:2]) for command in (*LISTS, *OF_ADMINS, *REFUSED)} == set()


async def test_a_command_answers_as_with_the_database(
    cli: Cli, two: Site, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "LOG_BYTES", 1)
    await happened(two.history, tmp_path)
    commands = [(*command, *format_) for command in LISTS for format_ in ((), ("--json",))]
    commands += REFUSED
    remote = [await cli(*command) for command in commands]
    monkeypatch.setenv("TIDEGATE_TOKEN", await two.token(Role.ADMIN, user="ada"))
    commands += OF_ADMINS
    remote += [await cli(*command) for command in OF_ADMINS]
    monkeypatch.delenv("TIDEGATE_SERVER")
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", dsn)
    extrapolated = ServerClock.extrapolated
    monkeypatch.setattr(ServerClock, "extrapolated", lambda clock: extrapolated(clock) + A_SLOW_MACHINE)
    local = [await cli(*command) for command in commands]

    for command, *answers in zip(commands, remote, local, strict=True):
        over_api, by_postgres = ((code, UNEXAMINED.sub("", err), SPAN.sub(" ", out).splitlines()) for code, out, err in answers)
        assert over_api == by_postgres, command
        assert over_api[0] == int(command in REFUSED), (command, over_api)
    doctor = commands.index(("doctor",))
    assert [answers[doctor].err for answers in (remote, local)] == [
        "not looked at: Kafka and Spark, because --server asks a web process: call it without on the host of a daemon\n",
        "not looked at: Kafka, because TIDEGATE_KAFKA_SERVERS is not set here\n",
    ]


async def test_a_log_is_followed_from_before_its_try(
    cli: Cli, two: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spools: list[Spool] = []

    async def begin() -> None:
        await two.history.clock("mine_a")
        (attempt,) = await two.history.attempts_begin()
        spools.append(begun(tmp_path, attempt.submission_id))
        spools[0].log.write_bytes(b"begin\n")

    async def end() -> None:
        with spools[0].log.open("ab") as log:
            log.write(b"end\n")
        ended(spools[0])

    steps = iter((begin, end))
    monkeypatch.setattr(task_logs, "time", SimpleNamespace(sleep=lambda _: anyio.from_thread.run(next(steps))))

    with anyio.fail_after(60):
        assert await cli("tasks", "logs", "mine_a", "latest", "first", "--follow") == (0, "begin\nend\n", "")


async def test_the_log_of_a_killed_runner_ends(cli: Cli, two: Site, tmp_path: Path) -> None:
    await two.history.clock("mine_a")
    (attempt,) = await two.history.attempts_begin()
    log = begun(tmp_path, attempt.submission_id).log
    log.write_bytes(b"so far \xff\n")
    running = await cli("tasks", "logs", "mine_a", "r", "first", "--json")
    log.write_bytes(b"cut off\n")
    await two.history.attempt_ends(attempt.submission_id, "lost", "the runner was killed")

    with anyio.fail_after(60):
        assert await cli("tasks", "logs", "mine_a", "r", "first", "--follow") == (0, "cut off\n", "")
    killed = await cli("tasks", "logs", "mine_a", "r", "first", "--json")
    assert (running.json["content"], running.json["complete"]) == ("so far \N{REPLACEMENT CHARACTER}\n", False)
    assert killed.json["complete"]
