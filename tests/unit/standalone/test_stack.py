"""The servers of a standalone, and the given servers that it uses instead."""

from pathlib import Path

import pytest

from tidegate.daemon.settings import Settings, SettingsError
from tidegate.daemon.standalone import stack
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.kept_ports import KeptPorts
from tidegate.daemon.standalone.postgres import Postgres


def test_the_addresses_of_an_earlier_start_are_those_of_its_own_servers(tmp_path: Path) -> None:
    ours = KeptPorts(tmp_path)
    postgres, kafka = Postgres(tmp_path / "postgres"), Kafka(tmp_path / "kafka", tmp_path)
    postgres.port, kafka.port = 5001, 5002
    ours.keep(postgres)
    ours.keep(kafka)
    exported = Settings(postgres_dsn=postgres.dsn, kafka_servers=kafka.bootstrap)
    other = Settings(postgres_dsn=postgres.dsn_of("other"), kafka_servers="127.0.0.1:5003")

    def seen(given: Settings) -> Settings:
        return stack.without_own(given, KeptPorts(tmp_path), Postgres(tmp_path / "postgres"), Kafka(tmp_path / "kafka", tmp_path))

    assert seen(exported) == Settings(postgres_dsn="", kafka_servers="")
    assert seen(other) == other


def test_tls_without_a_kafka_that_has_it_is_refused() -> None:
    given = Settings(postgres_dsn="", kafka_servers="", kafka_security_protocol="SSL")

    with pytest.raises(SettingsError, match=r"TIDEGATE_KAFKA_SECURITY_PROTOCOL is set, .* set TIDEGATE_KAFKA_SERVERS$"):
        stack.check_security(given)
