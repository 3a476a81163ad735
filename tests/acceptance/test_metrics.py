"""`/metrics` of a daemon as it runs: what it has counted, what Postgres knows, and what happens without Postgres or the port."""

import re
import socket
from collections.abc import Mapping
from pathlib import Path

import anyio
import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.running_daemon import Start
from tests.acceptance.single_daemon import prepare, single_daemon
from tests.servers import StartPostgres
from tests.waiting import until
from tidegate.daemon.build import build
from tidegate.daemon.measure import METRICS, OUTCOMES
from tidegate.daemon.metrics.installation import FRESH_S, WAIT_S
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.schemas.wire.event import Kind

FREE = "127.0.0.1:0"
LONG_S = 60.0

FILE = """
from tidegate import Dag, Dataset

with Dag("d", schedule=Dataset("s://a", name="A"), mode="each") as dag:
    dag.command("work", ["true"])
"""

EVENT = b"""{
    "specversion": "1.0", "id": "1", "source": "test", "type": "tidegate.dataset-updated.v1", "data": {"uri": "s://a"}
}"""

Values = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def value(values: Values, name: str, **labels: str) -> float | None:
    return values.get((name, frozenset(labels.items())))


async def scrape(address: str) -> Values:
    async with httpx.AsyncClient() as client:
        answer = await client.get(address)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.text)
    return {(sample.name, frozenset(sample.labels.items())): sample.value for family in families for sample in family.samples}


async def address_in(log: Path) -> str:
    async def is_served() -> bool:
        return "/metrics" in log.read_text()

    await until(is_served, LONG_S, every_s=0.1)
    (found,) = re.findall(r"http://127\.0\.0\.1:[0-9]+/metrics", log.read_text())
    return str(found)


async def test_a_daemon_tells_what_it_has_counted_and_what_postgres_knows(start: Start, tmp_path: Path) -> None:
    async with start(metrics_address=FREE) as daemon:
        (daemon.dags / "d.py").write_text(FILE)
        await daemon.until(lambda: daemon.knows("d"))
        address = await address_in(tmp_path / "daemon.log")
        before = await scrape(address)

        for _ in range(2):
            await daemon.send(Kind.DATASET_UPDATED, EVENT)
        await daemon.send(Kind.DATASET_UPDATED, b"no JSON")
        await daemon.until(lambda: daemon.has_runs(1, "d"))
        await daemon.until_letters(1)
        await anyio.sleep(FRESH_S)
        after = await scrape(address)

    topic = daemon.settings.topic(Kind.DATASET_UPDATED)
    assert value(before, "tidegate_events_total", topic=topic, outcome="recorded") == 0
    assert value(before, "tidegate_runs_ended_total", run_type="dataset", state="success") == 0
    once: Mapping[str, list[dict[str, str]]] = {
        "tidegate_events_total": [{"topic": topic, "outcome": outcome} for outcome in OUTCOMES],
        "tidegate_runs_ended_total": [{"run_type": "dataset", "state": "success"}],
        "tidegate_attempts_ended_total": [{"backend": "command", "state": "succeeded"}],
        "tidegate_run_creation_delay_seconds_count": [{}],
        "tidegate_task_start_delay_seconds_count": [{"backend": "command"}],
        "tidegate_dead_letters_open": [{}],
        "tidegate_scrape_postgres_up": [{}],
        "tidegate_daemons": [{}],
        "tidegate_build_info": [{"version": build()}],
    }
    found = {name: [value(after, name, **labels) for labels in several] for name, several in once.items()}
    assert found == {name: [1] * len(several) for name, several in once.items()}
    assert value(after, "tidegate_intake_lag_records", topic=topic, partition="0") == 0
    assert value(after, "tidegate_leases", kind="partition", state="owned") == 3
    assert value(after, "tidegate_leases_held", kind="partition") == 3
    assert (value(after, "tidegate_spool_bytes") or 0) >= 0
    assert {name for name, _ in after if name.startswith("tidegate_")} <= declared()


async def test_a_port_that_is_taken_is_said_and_used_once_it_is_free(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with start(metrics_address=f"127.0.0.1:{port}") as daemon:
            await daemon.until(lambda: is_said(tmp_path / "daemon.log", "duty_degraded"))
            (daemon.dags / "d.py").write_text(FILE)
            await daemon.until(lambda: daemon.knows("d"))
            taken.close()
            address = await address_in(tmp_path / "daemon.log")
            values = await scrape(address)
    said = (tmp_path / "daemon.log").read_text()

    assert f"port {port} of 127.0.0.1 cannot be listened on: Address already in use; set TIDEGATE_METRICS_ADDRESS to" in said
    assert "Traceback" not in said
    assert address == f"http://127.0.0.1:{port}/metrics"
    assert value(values, "tidegate_build_info", version=build()) == 1


async def test_without_postgres_the_counts_and_the_last_values_are_served_in_time(
    own_postgres: StartPostgres, broker: str, tmp_path: Path
) -> None:
    postgres = await own_postgres()
    await prepare(postgres.dsn, broker, tmp_path, "metrics.")
    async with single_daemon(postgres.dsn, broker, tmp_path, "metrics.", metrics_address=FREE) as daemon:
        address = await address_in(daemon.child.log)
        await until(daemon.knows_dags, LONG_S)
        assert value(await scrape(address), "tidegate_daemons") == 1
        frozen, stopped = await without(postgres, address)

    for values, took_s in (frozen, stopped):
        assert value(values, "tidegate_scrape_postgres_up") == 0
        assert (value(values, "tidegate_scrape_postgres_age_seconds") or 0) > FRESH_S
        assert value(values, "tidegate_daemons") == 1
        assert value(values, "tidegate_build_info", version=build()) == 1
        assert took_s < WAIT_S + 1
    assert value(stopped[0], "tidegate_outages", component="Postgres") == 1


async def without(postgres: Postgres, address: str) -> tuple[tuple[Values, float], tuple[Values, float]]:
    """Scrapes while Postgres is frozen, and while it is stopped, and how long they took."""
    await anyio.sleep(FRESH_S)
    server = psutil.Process(postgres.pid)
    processes = [server, *server.children()]
    for process in processes:
        process.suspend()
    frozen = await timed(address)
    for process in processes:
        process.resume()
    await postgres.stop()
    await anyio.sleep(FRESH_S)
    stopped = await timed(address)
    await postgres.start()
    return frozen, stopped


async def timed(address: str) -> tuple[Values, float]:
    began = anyio.current_time()
    return await scrape(address), anyio.current_time() - began


async def is_said(log: Path, event: str) -> bool:
    return event in log.read_text()


def declared() -> set[str]:
    """The names of samples."""
    parts = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}
    return {f"{metric.name}{part}" for metric in METRICS for part in parts[metric.kind]}
