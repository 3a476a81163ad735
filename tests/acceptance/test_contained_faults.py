"""Two daemons, and faults of one run, attempt, file, DAG or login: each costs what it belongs to, and all else goes on."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import anyio
import asyncpg
import msgspec
import pytest

from tests.acceptance.crash_scenario import Connection
from tests.acceptance.daemon_pair import DaemonPair, two_daemons
from tests.waiting import until
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.request import Request, apply_request
from tidegate.events import Publisher
from tidegate.schemas.message import ClearRequested, RunRequested

FILE = """
from tidegate import Dag, Dataset

WAIT = "until [ -e {home}/%s ] || [ $((tries=tries+1)) -gt 2000 ]; do sleep 0.05; done"
SPOILS = {"fifo": "mkfifo $f", "link": "ln -s /dev/zero $f", "garbage": "echo garbage > $f", "huge": "truncate -s 9G $f"}
SPOILT = [("outcome.json", name) for name in SPOILS]
SPOILT += [("claim", "fifo"), ("claim", "garbage"), ("spec.json", "fifo"), ("log", "fifo")]
UNTIL_SEEN = {"claim": WAIT % "seen"}

with Dag("d", schedule=Dataset("s://a")) as dag:
    dag.command("work", ["true"])
with Dag("mapped") as dag:
    dag.command("each", ["true"]).expand(over=dag.command("list", ["sh", "-c", WAIT % "go"]))
with Dag("hot", schedule=Dataset("s://hot"), max_active_runs=1) as dag:
    dag.command("work", ["sh", "-c", WAIT % "go"])
with Dag("spoils", max_active_tasks=100) as dag:
    for file, name in SPOILT:
        spoil = f"f=$TMPDIR/../../../$TASK_SUBMISSION_ID/{file}; rm -f $f; {SPOILS[name]}; {UNTIL_SEEN.get(file, 'true')}"
        dag.command(f"{file}-{name}", ["sh", "-c", spoil])
"""
HANGS = "import time, tidegate\ntime.sleep(3600)\n"
GOOD = "from tidegate import Dag\nwith Dag('good') as dag: dag.empty('x')\n"
RUN_EVENTS = 400
WITHIN_S = 60.0
MEETS_S = 1.5
"""Each daemon opens a connection many times in this time while it has none."""

WINDOW = "SELECT count(DISTINCT owner) FROM submission WHERE state = 'submitting' AND task_index >= 2"
LIST_ATTEMPT = """
    SELECT submission_id, attempt_token((SELECT secret FROM installation), submission_id)
    FROM submission JOIN dag_run AS run ON run.id = dag_run_id
    WHERE run.dag_id = 'mapped' AND task_index = 0 AND submission.state = 'accepted' AND try_number = $1
"""
ENDED = "SELECT count(*) FROM dag_run WHERE dag_id = $1 AND state::text = $2"
PENDING = "SELECT count(*) FROM dataset_dag_run_queue WHERE target_dag_id = $1"
SPOILT = """
    SELECT task.task_id, attempt.state::text, attempt.reason
    FROM submission AS attempt
    JOIN task_instance AS task USING (dag_run_id, task_index)
    JOIN dag_run AS run ON run.id = dag_run_id
    WHERE run.dag_id = 'spoils'
"""
TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1"


class Attempt(NamedTuple):
    """An attempt, as its process knows it."""

    submission_id: UUID
    token: str


class Login:
    """The role of the daemons, and what an administrator does to it and to its database."""

    def __init__(self, admin: Connection, dsn: str) -> None:
        self.admin = admin
        self.database = dsn.rpartition("/")[2]
        self.role = f"daemons_{self.database}"
        self.dsn = dsn.replace("://postgres@", f"://{self.role}@")

    async def role_is(self, option: str) -> None:
        await self.admin.execute(f"ALTER ROLE {self.role} {option}")

    async def connections_are(self, allowed: str) -> None:
        await self.admin.execute(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS {allowed}")

    async def end_all(self) -> None:
        await self.admin.execute(TERMINATE, self.role)


@pytest.fixture
async def login(postgres: str, dsn: str) -> AsyncIterator[Login]:
    admin = await asyncpg.connect(postgres)
    login = Login(admin, dsn)
    await admin.execute(f"CREATE ROLE {login.role} LOGIN IN ROLE postgres")
    await admin.execute(f"ALTER ROLE {login.role} SET role TO postgres")  # which owns what the daemons create
    yield login
    await admin.execute(f"DROP ROLE {login.role}")
    await admin.close()


async def test_two_daemons_go_on_while_runs_attempts_files_dags_and_logins_fail(
    dsn: str, kafka: str, topic_prefix: str, tmp_path: Path, login: Login
) -> None:
    given: dict[str, Any] = {
        "postgres_dsn": login.dsn,
        "dispatch_concurrency": 1,
        "run_events": RUN_EVENTS,
        "parse_wall_s": 2 * WITHIN_S,
    }
    async with (
        two_daemons(dsn, kafka, topic_prefix, tmp_path, FILE, **given) as pair,
        Publisher(kafka, source="t", topic_prefix=topic_prefix) as publisher,
    ):
        await until(lambda: pair.db.fetchval("SELECT count(*) = 4 FROM dag"), WITHIN_S)
        await _cleared_while_submitting(pair, dsn, publisher)
        await _request(dsn, RunRequested(dag_id="spoils", run_id="r1", conf={}))
        for number in range(6):
            (tmp_path / "dags" / f"hangs_{number}.py").write_text(HANGS)
        taken = await _many_pending(pair)
        (tmp_path / "dags" / "good.py").write_text(GOOD)
        await pair.until_rows(1, "SELECT count(*) FROM dag WHERE dag_id = 'good'")
        await pair.until_rows(1, ENDED, "spoils", "failed")
        (tmp_path / "seen").touch()
        spoilt = {row[0]: (row[1], row[2]) for row in await pair.db.fetch(SPOILT)}
        await _refused(pair, login)

        alive = [daemon.alive for daemon in pair.daemons]
        logs = {name: _log(tmp_path / f"daemon-{name}.log") for name in "ab"}
    assert alive == [True, True]
    assert [len(run) for run in taken] == [1, RUN_EVENTS, RUN_EVENTS, RUN_EVENTS]
    assert [_losses(log) for log in logs.values()] == [1, 1]
    assert [line for log in logs.values() for line in log if line["event"] in ("duty_failed", "submission_not_built")] == []
    for task_id, (state, reason) in spoilt.items():
        if task_id.startswith(("outcome.json", "claim")):
            assert (state, reason[:59]) == ("failed", "the files of the attempt were changed by another program: /")
    assert len(spoilt) == 8


async def _cleared_while_submitting(pair: DaemonPair, dsn: str, publisher: Publisher) -> None:
    """A user clears the list of a mapped task after both daemons have claimed elements, and before they read the list."""
    await _request(dsn, RunRequested(dag_id="mapped", run_id="r1", conf={}))
    first = await _list_attempt(pair, 1)
    async with _no_reads_of_datasets(dsn):  # every submission is built from a read of them
        await _returns(publisher, first, [1, 2, 3, 4])
        await pair.until_rows(2, WINDOW)
        await _request(dsn, ClearRequested(dag_id="mapped", run_id="r1", task_ids=("list",)))
    await _returns(publisher, await _list_attempt(pair, 2), [1, 2])
    await pair.until_rows(1, ENDED, "mapped", "success")


async def _list_attempt(pair: DaemonPair, try_number: int) -> Attempt:
    async def accepted() -> bool:
        return bool(await pair.db.fetch(LIST_ATTEMPT, try_number))

    await until(accepted, WITHIN_S)
    return Attempt(*(await pair.db.fetch(LIST_ATTEMPT, try_number))[0])


async def _returns(publisher: Publisher, attempt: Attempt, result: Sequence[int]) -> None:
    """The attempt ends with this list."""
    await publisher.task_finished(
        attempt.submission_id, "succeeded", dag_id="mapped", run_id="r1", token=attempt.token, result=result
    )


@asynccontextmanager
async def _no_reads_of_datasets(dsn: str) -> AsyncIterator[None]:
    db = await asyncpg.connect(dsn)
    try:
        async with db.transaction():
            await db.execute("LOCK TABLE dataset")
            yield
    finally:
        await db.close()


async def _many_pending(pair: DaemonPair) -> Sequence[set[str]]:
    """A DAG consumes many events, a bounded number a run, while runs of another one end. Returns the events of its runs."""
    await pair.send("s://hot")
    await pair.until_rows(1, ENDED, "hot", "running")
    many = await pair.send(*["s://hot"] * (3 * RUN_EVENTS))
    await pair.until_taken(await pair.send("s://a"))
    await pair.until_rows(1, ENDED, "d", "success")
    await pair.until_rows(len(many), PENDING, "hot")
    (pair.home / "go").touch()
    await pair.until_taken(await pair.send("s://a"))
    await pair.until_rows(2, ENDED, "d", "success")
    await pair.until_taken(many, "hot")
    await pair.until_rows(4, ENDED, "hot", "success")
    return await pair.runs("hot")


async def _refused(pair: DaemonPair, login: Login) -> None:
    """Postgres refuses all connections, for one reason after the other."""
    await login.connections_are("false")
    await login.end_all()
    await anyio.sleep(MEETS_S)
    for option in ("NOLOGIN", "LOGIN CONNECTION LIMIT 0", "CONNECTION LIMIT -1"):
        await login.role_is(option)
        await login.connections_are("true")
        await anyio.sleep(MEETS_S)
    await pair.until_taken(await pair.send(*["s://a"] * 6))


async def _request(dsn: str, request: Request) -> None:
    async with connect(dsn) as database:
        await apply_request(database, request)


def _log(path: Path) -> Sequence[Mapping[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_text().splitlines()]


def _losses(log: Sequence[Mapping[str, Any]]) -> int:
    """How often Postgres was lost. A try that began before its return may still fail after it: the server is then unsteady."""
    return [line["event"] for line in log if line.get("server") == "Postgres"].count("server_lost")
