"""SIGTERM hands the work of a daemon to others within seconds; a second one ends it at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import psutil
import pytest

from tests.acceptance.daemon_pair import PARTITIONS, DaemonPair, two_daemons
from tests.acceptance.single_daemon import prepare, single_daemon
from tests.servers import StartKafka, StartPostgres
from tests.waiting import until
from tidegate.daemon.postgres.database import TRANSACTION_S
from tidegate.daemon.standalone.process import descendants

FILE = """
from tidegate import Dag, Dataset

with Dag("d", schedule=Dataset("s://a"), max_active_runs=4) as dag:
    dag.empty("first") >> dag.empty("last")
"""
WITHIN_S = 60.0
SECOND_S = 1.0

OWNED = """
SELECT count(*) = (SELECT count(*) FROM lease) FROM lease WHERE owner = (SELECT id FROM job WHERE pid = $1)
"""
ENDED = "SELECT count(*) FROM dag_run WHERE state = 'success'"


async def sending(pair: DaemonPair, sent: list[str], enough: anyio.Event) -> None:
    """Until it is enough."""
    while not enough.is_set():
        sent += await pair.send(*["s://a"] * (5 * PARTITIONS))


async def until_more_runs(pair: DaemonPair) -> None:
    """Until more have ended from now on than may be active at once."""
    before = await pair.db.fetchval(ENDED)
    await until(lambda: pair.db.fetchval(f"SELECT ({ENDED}) >= $1", before + 5), WITHIN_S)


async def test_a_daemon_that_is_told_to_stop_under_load_hands_over_in_time(
    dsn: str, kafka: str, topic_prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outlasting = {"lease_ttl_s": 600, "lease_renew_s": 2}  # nothing is taken over because a lease expired
    async with two_daemons(dsn, kafka, topic_prefix, tmp_path, FILE, **outlasting) as pair:
        going, staying = pair.daemons
        sent: list[str] = []
        enough = anyio.Event()
        async with anyio.create_task_group() as tg:
            tg.start_soon(sending, pair, sent, enough)
            await until_more_runs(pair)
            going.send_signal(signal.SIGTERM)
            told_at = anyio.current_time()
            await until(lambda: pair.db.fetchval(OWNED, staying.pid), WITHIN_S)
            took_s = anyio.current_time() - told_at
            code = await going.process.wait()
            await until_more_runs(pair)
            enough.set()
        await pair.until_taken(sent)
        taken = [event for run in await pair.runs() for event in run]
        audit = await pair.audit()

    with capsys.disabled():
        print(f"\nall leases were taken over after {took_s:.2f} s")  # noqa: T201 - a figure that one wants to see
    assert code == 0
    assert not audit.findings
    assert sorted(taken) == sorted(sent)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """The process and all that it started."""
    family = [psutil.Process(pid), *descendants(pid)]
    for process in family:
        process.suspend()
    try:
        yield
    finally:
        for process in family:
            process.resume()


async def test_a_second_signal_ends_a_daemon_at_once_and_nothing_is_torn(
    own_postgres: StartPostgres, own_kafka: StartKafka, tmp_path: Path
) -> None:
    """A Postgres that stands still holds up the first one: a transaction is waited for. It still does so at the end."""
    postgres, kafka = await own_postgres(), await own_kafka()
    await prepare(postgres.dsn, kafka.bootstrap, tmp_path)
    async with single_daemon(postgres.dsn, kafka.bootstrap, tmp_path) as daemon:
        await until(daemon.knows_dags, WITHIN_S)
        await daemon.publish(20)
        with frozen(postgres.pid):
            daemon.child.send_signal(signal.SIGTERM)
            await until(lambda: daemon.said("stopping"), WITHIN_S)  # two signals that arrive at once are one
            await anyio.sleep(SECOND_S)
            waited = daemon.child.alive
            daemon.child.send_signal(signal.SIGTERM)
            with anyio.fail_after(TRANSACTION_S / 2):  # the transaction would end by itself after all of it
                code = await daemon.child.process.wait()

    async with single_daemon(postgres.dsn, kafka.bootstrap, tmp_path) as daemon:
        await daemon.publish(1)
        await until(lambda: daemon.has_runs(21), WITHIN_S)

    assert (waited, code) == (True, -signal.SIGTERM)
