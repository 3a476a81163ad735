"""TLS, logins and client certificates on a real broker, and the reasons of refusals."""

import gc
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from aiokafka.admin import AIOKafkaAdminClient
from anyio import to_thread

from tests.secured_kafka import (
    CLUSTER,
    DESCRIBE,
    GROUP,
    IDEMPOTENT_WRITE,
    PASSWORD,
    READ,
    TOPIC,
    USER,
    WRITE,
    SecuredKafka,
    deny,
    grant,
    token,
)
from tests.waiting import until
from tidegate.events import KafkaSecurity, Kind, Publisher, RunStates, SyncPublisher, topics
from tidegate.events.sink import ProducerRecord, Sink
from tidegate.events.source import Partition, Source
from tidegate.schemas.error import UnavailableError

Change = Callable[[SecuredKafka, Path], tuple[str, KafkaSecurity]]
replace = msgspec.structs.replace


@pytest.fixture(autouse=True)
def _leave_farewells() -> Iterator[None]:
    """A closed TLS connection waits for the answer of the broker; a loop that ends sooner leaves it to the garbage collector."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def scram(server: SecuredKafka) -> tuple[str, KafkaSecurity]:
    return server.login, server.scram


def plain(server: SecuredKafka) -> tuple[str, KafkaSecurity]:
    return server.login, replace(server.scram, sasl_mechanism="PLAIN", sasl_password=PASSWORD, sasl_password_file="")


def oauth(server: SecuredKafka) -> tuple[str, KafkaSecurity]:
    bearer = replace(server.scram, sasl_mechanism="OAUTHBEARER", sasl_username="", sasl_password_file=str(server.files.token))
    return server.login, bearer


def certificate(server: SecuredKafka) -> tuple[str, KafkaSecurity]:
    return server.mutual, server.certificate


@pytest.mark.parametrize("way", [scram, plain, oauth, certificate])
async def test_events_pass_through_a_secured_listener(
    secured_kafka: SecuredKafka, topic_prefix: str, way: Callable[[SecuredKafka], tuple[str, KafkaSecurity]]
) -> None:
    servers, security = way(secured_kafka)
    await topics.create(servers, topic_prefix, 1, 1, security=security)
    async with Publisher(servers, source="t", topic_prefix=topic_prefix, security=security) as publisher:
        await publisher.dataset_updated("lake://flights")
    await to_thread.run_sync(publish_in_thread, servers, topic_prefix, security)

    async with Source(servers, security=security) as source:
        source.assign({Partition(topics.name(topic_prefix, Kind.DATASET_UPDATED), 0): 0})
        ((_, records),) = (await source.fetch(20.0, 10)).items()

    assert [record.key for record in records] == [b"lake://flights", b"lake://weather"]


def publish_in_thread(servers: str, topic_prefix: str, security: KafkaSecurity) -> None:
    with SyncPublisher(servers, source="t", topic_prefix=topic_prefix, security=security) as publisher:
        publisher.dataset_updated("lake://weather")


def wrong_password(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    (home / "wrong").write_text("wrong")
    return server.login, replace(server.scram, sasl_password_file=str(home / "wrong"))


def refused_token(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    (home / "token").write_text(token(USER).replace(".", "!"))
    return server.login, replace(oauth(server)[1], sasl_password_file=str(home / "token"))


def other_mechanism(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    return server.login, replace(server.scram, sasl_mechanism="SCRAM-SHA-256")


def unknown_ca(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    return server.login, replace(server.scram, ssl_ca_file=another_ca(home))


def other_host(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    return server.login.replace("127.0.0.1", "localhost"), server.scram


def no_certificate(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    return server.mutual, KafkaSecurity(security_protocol="SSL", ssl_ca_file=str(server.files.ca))


def certificate_of_another_ca(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    trustme.CA().issue_cert("client.example").private_key_and_cert_chain_pem.write_to_path(home / "client.pem")
    foreign = KafkaSecurity(
        security_protocol="SSL", ssl_ca_file=str(server.files.ca), ssl_certificate_file=str(home / "client.pem")
    )
    return server.mutual, foreign


def no_login(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    return server.mutual, server.scram


def plaintext(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    return server.login, KafkaSecurity()


def tls_to_plaintext(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    return server.bootstrap, KafkaSecurity(security_protocol="SSL", ssl_ca_file=str(server.files.ca))


def login_at_plaintext(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    return server.bootstrap, KafkaSecurity(security_protocol="SASL_PLAINTEXT", sasl_username=USER, sasl_password=PASSWORD)


def wrong_key_password(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    return server.mutual, replace(server.certificate, ssl_key_password_file="")


def missing_password_file(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    return server.login, replace(server.scram, sasl_password_file=str(home / "missing"))


def missing_ca(server: SecuredKafka, home: Path) -> tuple[str, KafkaSecurity]:
    return server.login, replace(server.scram, ssl_ca_file=str(home / "missing"))


def another_ca(home: Path) -> str:
    trustme.CA().cert_pem.write_to_path(home / "other-ca.pem")
    return str(home / "other-ca.pem")


REFUSALS: list[tuple[Change, str]] = [
    (wrong_password, "it refused the login of 'alice' by SCRAM-SHA-512; check TIDEGATE_KAFKA_SASL_USERNAME and"),
    (refused_token, "it refused the token; renew the file of TIDEGATE_KAFKA_SASL_PASSWORD_FILE"),
    (other_mechanism, "it does not offer SCRAM-SHA-256; set TIDEGATE_KAFKA_SASL_MECHANISM"),
    (unknown_ca, "its certificate is not trusted (unable to get local issuer certificate); set TIDEGATE_KAFKA_SSL_CA_FILE"),
    (other_host, "its certificate is for another host (Hostname mismatch"),
    (no_certificate, "it requires a certificate of the client"),
    (certificate_of_another_ca, "it does not accept a certificate of the client"),
    (no_login, "it requires a certificate of the client"),
    (plaintext, "it closes connections; check that TIDEGATE_KAFKA_SECURITY_PROTOCOL (PLAINTEXT) is"),
    (tls_to_plaintext, "it closes connections; check that TIDEGATE_KAFKA_SECURITY_PROTOCOL (SSL) is"),
    (login_at_plaintext, "it asks for no login; set TIDEGATE_KAFKA_SECURITY_PROTOCOL to PLAINTEXT"),
    (wrong_key_password, "an encrypted key needs TIDEGATE_KAFKA_SSL_KEY_PASSWORD_FILE"),
    (missing_password_file, "missing cannot be used: No such file or directory; write the secret there"),
    (missing_ca, "missing cannot be used: No such file or directory; write a PEM file there"),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSALS, ids=[change.__name__ for change, _ in REFUSALS])
async def test_a_refusal_says_why_and_what_to_do(
    secured_kafka: SecuredKafka, tmp_path: Path, change: Change, sentence: str
) -> None:
    servers, security = change(secured_kafka, tmp_path)

    with pytest.raises(UnavailableError) as raised:
        async with Source(servers, security=security, timeout_s=10.0):
            pass

    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert PASSWORD not in str(raised.value)


async def test_a_renewed_password_needs_no_new_client(secured_kafka: SecuredKafka, tmp_path: Path, topic_prefix: str) -> None:
    servers, security = wrong_password(secured_kafka, tmp_path)
    await topics.create(secured_kafka.login, topic_prefix, 1, 1, security=secured_kafka.scram)
    async with Sink(servers, security=security) as sink:
        with pytest.raises(UnavailableError, match="refused the login"):
            await sink.connect()
        (tmp_path / "wrong").write_text(PASSWORD)

        (sent,) = await sink.send_all([ProducerRecord(topics.name(topic_prefix, Kind.DATASET_UPDATED), b"k", b"v")])

    assert sent


async def test_a_missing_right_is_no_missing_topic(secured_kafka: SecuredKafka, topic_prefix: str) -> None:
    servers, security = scram(secured_kafka)
    hidden = topics.name(topic_prefix, Kind.TASK_STATE)
    await topics.create(servers, topic_prefix, 1, 1, security=security)
    await denied(secured_kafka, (TOPIC, hidden, DESCRIBE), (GROUP, topic_prefix, DESCRIBE))

    async with Source(servers, security=security, group=topic_prefix) as source:
        await until(lambda: is_refused(f"the topic {hidden}", source.has_leader, hidden), 60)
        await until(lambda: is_refused("its group", source.committed, [Partition(hidden, 0)]), 60)
        assert await source.has_leader(f"{topic_prefix}none") == {}


async def test_a_producer_needs_write_of_its_topic_and_a_subscriber_read(secured_kafka: SecuredKafka, topic_prefix: str) -> None:
    servers, security = scram(secured_kafka)
    await topics.create(servers, topic_prefix, 1, 1, security=security)
    names = {kind: topics.name(topic_prefix, kind) for kind in Kind}
    async with administration(secured_kafka) as admin:
        await grant(admin, CLUSTER, "kafka-cluster", IDEMPOTENT_WRITE, "bob")
        for kind, name in names.items():
            granted = {Kind.DATASET_UPDATED: (WRITE, USER), Kind.DAG_RUN_STATE: (READ, USER)}.get(kind, (WRITE, "bob"))
            await grant(admin, TOPIC, name, *granted)

    async with Source(servers, security=security) as source:
        await until(lambda: is_refused(f"the topic {names[Kind.TASK_STATE]}", source.has_leader, names[Kind.TASK_STATE]), 60)
    async with Publisher(servers, source="t", topic_prefix=topic_prefix, security=security) as publisher:
        await publisher.dataset_updated("lake://flights")
    await RunStates(servers, topic_prefix=topic_prefix, security=security).catch_up()


async def denied(server: SecuredKafka, *operations: tuple[int, str, int]) -> None:
    async with administration(server) as admin:
        for kind, name, operation in operations:
            await deny(admin, kind, name, operation)


@asynccontextmanager
async def administration(server: SecuredKafka) -> AsyncIterator[AIOKafkaAdminClient]:
    """By a user who may do everything."""
    admin = AIOKafkaAdminClient(bootstrap_servers=server.bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def is_refused(what: str, ask: Callable[[Any], Awaitable[object]], argument: Any) -> bool:
    """Whether it is, with this right in the reason."""
    try:
        await ask(argument)
    except UnavailableError as error:
        return f"does not let its user use {what}: add an ACL" in str(error)
    return False


def test_the_environment_has_the_settings_of_a_client(monkeypatch: pytest.MonkeyPatch, secured_kafka: SecuredKafka) -> None:
    for field, value in msgspec.structs.asdict(secured_kafka.scram).items():
        monkeypatch.setenv(f"TIDEGATE_KAFKA_{field.upper()}", value)

    assert KafkaSecurity.from_environ(os.environ) == secured_kafka.scram
