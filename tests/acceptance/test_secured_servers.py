"""A daemon and the command line with a Kafka that has TLS and a login, and a Postgres that has TLS."""

import signal
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import msgspec
import trustme

from tests.acceptance.command import Ended, Tidegate
from tests.acceptance.running_daemon import RunningDaemon, Start, as_text, spawn_daemon
from tests.secured_kafka import PASSWORD, SecuredKafka
from tests.servers import MakeSettings
from tests.tls_door import tls_door
from tests.waiting import until
from tidegate.daemon.cli.failure import AWAY
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.events import RunStates, topics
from tidegate.events.source import Partition, Source
from tidegate.schemas.kafka_security import KafkaSecurity
from tidegate.schemas.wire.event import FINISH_SOURCE, Kind

DAG = """
from tidegate import Dag, Dataset
with Dag("copy", schedule=Dataset("lake://flights")) as dag:
    dag.command("copy", ["true"])
"""
WITHIN_S = 60.0
SETTLE_S = 3.0


def settings_of(server: str, security: KafkaSecurity) -> dict[str, Any]:
    """The settings of a daemon as arguments."""
    fields = msgspec.structs.asdict(security).items()
    return {"kafka_servers": server, **{f"kafka_{field}": value for field, value in fields}}


async def test_a_daemon_works_behind_a_login(secured_kafka: SecuredKafka, start: Start, tmp_path: Path) -> None:
    server, security = secured_kafka.login, secured_kafka.scram

    async with start(**settings_of(server, security)) as daemon:
        await run_once(daemon)
        states = RunStates(server, topic_prefix=daemon.settings.topic_prefix, security=security)
        await daemon.until(lambda: succeeded(states))

        async def is_told_by_the_runner() -> bool:
            return FINISH_SOURCE.encode() in await sources_of_ends(daemon, server, security)

        # The daemon may find the end in the spool before the runner has published it.
        await daemon.until(is_told_by_the_runner)

    assert PASSWORD not in "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())


async def test_a_password_by_value_stays_in_the_daemon(secured_kafka: SecuredKafka, start: Start, tmp_path: Path) -> None:
    security = msgspec.structs.replace(secured_kafka.scram, sasl_password=PASSWORD, sasl_password_file="")

    async with start(**settings_of(secured_kafka.login, security)) as daemon:
        await run_once(daemon)
        await daemon.until(lambda: daemon.has_ended("copy"))
        sources = await sources_of_ends(daemon, secured_kafka.login, security)

    assert sources == []
    assert PASSWORD not in "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())


async def test_a_wrong_password_is_an_outage_that_is_logged_once(
    secured_kafka: SecuredKafka, settings: MakeSettings, tidegate: Tidegate, tmp_path: Path
) -> None:
    password, log = tmp_path / "password", tmp_path / "daemon.log"
    password.write_text("wrong")
    security = msgspec.structs.replace(secured_kafka.scram, sasl_password_file=str(password))
    mine = settings(**settings_of(secured_kafka.login, security))
    await topics.create(mine.kafka_servers, mine.topic_prefix, 1, 1, security=secured_kafka.scram)
    refused = await tidegate("topics", "create", **as_text(mine))
    child = await spawn_daemon(mine, tmp_path)
    try:
        await until_said(log, "server_lost")
        await anyio.sleep(SETTLE_S)
        password.write_text(PASSWORD)
        await until_said(log, "server_back")
        assert child.alive
        created = await tidegate("topics", "create", **as_text(mine))
    finally:
        await child.end(signal.SIGTERM, 20)

    (lost,) = said(log, "server_lost")
    reason = "it refused the login of 'alice' by SCRAM-SHA-512; check TIDEGATE_KAFKA_SASL_USERNAME"
    assert reason in lost["error"]
    assert (refused.code, len(refused.err.splitlines()), reason in refused.err) == (AWAY, 1, True)
    assert created.code == 0


async def test_the_certificate_of_postgres_is_verified_in_full(tidegate: Tidegate, dsn: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(LOOPBACK).configure_cert(context)
    address = urlsplit(dsn)
    async with tls_door(address.port or 0, context) as door:

        async def listed(host: str, ca: Path) -> Ended:
            secured = f"postgresql://postgres@{host}:{door}{address.path}?sslmode=verify-full&sslrootcert={ca}"
            return await tidegate("dags", "list", postgres_dsn=secured)

        good = await listed(LOOPBACK, tmp_path / "ca.pem")
        other_host = await listed("localhost", tmp_path / "ca.pem")
        trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
        other_ca = await listed(LOOPBACK, tmp_path / "other.pem")
        missing = await listed(LOOPBACK, tmp_path / "missing.pem")

    assert good.code == 0, good.err
    refusals = (
        (other_host, "its certificate is refused (Hostname mismatch"),
        (other_ca, "its certificate is refused (unable to get local issuer certificate); check the host, and sslrootcert"),
        (missing, "a file in its address does not exist; check sslrootcert, sslcert and sslkey\n"),
    )
    for refused, why in refusals:
        assert refused.code == AWAY
        assert refused.err.startswith(f"tidegate: Postgres is not available: {why}")
        assert len(refused.err.splitlines()) == 1


def said(log: Path, event: str) -> list[dict[str, Any]]:
    whole, _, _ = log.read_text().rpartition("\n")  # the last line may still be written
    lines = (msgspec.json.decode(line) for line in whole.splitlines())
    return [line for line in lines if line["event"] == event]


async def until_said(log: Path, event: str) -> None:
    await until(lambda: said(log, event), WITHIN_S)


async def run_once(daemon: RunningDaemon) -> None:
    (daemon.dags / "copy.py").write_text(DAG)
    await daemon.until(lambda: daemon.knows("copy"))
    published = await daemon.call("datasets", "publish", "lake://flights")
    assert published.code == 0, published.err


async def succeeded(states: RunStates) -> bool:
    await states.catch_up()
    return [event.state for event in states.values()] == ["success"]


async def sources_of_ends(daemon: RunningDaemon, server: str, security: KafkaSecurity) -> list[bytes]:
    """The sources of the events about ends of tasks."""
    partition = Partition(daemon.settings.topic(Kind.TASK_FINISHED), 0)
    async with Source(server, security=security) as source:
        source.assign({partition: 0})
        records = (await source.fetch(1.0, 10)).get(partition, [])
    return [dict(record.headers)["ce_source"] for record in records]
