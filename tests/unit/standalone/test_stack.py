"""What the daemon of a standalone is given besides its servers."""

from pathlib import Path

import msgspec
import pytest

from tidegate.daemon.settings import Settings, SettingsError, read
from tidegate.daemon.standalone import stack
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.kept_ports import KeptPorts
from tidegate.daemon.standalone.postgres import Postgres

SERVERS = {"TIDEGATE_POSTGRES_DSN": "postgresql://localhost/t", "TIDEGATE_KAFKA_SERVERS": "localhost:9092"}


def test_the_daemon_is_told_how_to_tell_people_and_reads_it_as_it_was() -> None:
    given = read({**SERVERS, "TIDEGATE_SMTP_HOST": "mail", "TIDEGATE_SMTP_STARTTLS": "false", "TIDEGATE_WEBHOOK_SECRET": "s"})

    passed_on = stack.passed_on(given)

    assert read({**SERVERS, **{f"TIDEGATE_{name.upper()}": value for name, value in passed_on.items()}}) == given
    assert {"smtp_host", "smtp_starttls", "webhook_secret", "notify_tries", "callback_timeout_s"} <= passed_on.keys()


def test_nothing_else_is_passed_on() -> None:
    passed_on = stack.passed_on(Settings(postgres_dsn="", kafka_servers=""))

    assert {"postgres_dsn", "kafka_servers", "topic_prefix", "spool_dir"} & passed_on.keys() == set()


def test_the_web_page_gets_the_settings_of_logins_and_links() -> None:
    ours = {"OIDC_ISSUER": "https://id", "LOGIN_ROLES": "{}", "PROXY_ADDRESSES": "10.0.0.5", "WEB_DSN": "postgresql://b/t"}
    more = {"SPARK_UI_URL": "http://ui/", "PRODUCER_URL": "http://p/", "EDITORS": "{}", "WEB_REQUESTS_PER_S": "7"}
    given = read({**SERVERS, **{f"TIDEGATE_{name}": value for name, value in {**ours, **more}.items()}})

    to_web = stack.to_web(given)

    assert read({**SERVERS, **{f"TIDEGATE_{name.upper()}": value for name, value in to_web.items()}}) == given
    assert stack.to_web(msgspec.structs.replace(given, postgres_dsn=""))["web_dsn"] == ""


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


def test_the_daemon_gets_the_login_of_a_given_kafka() -> None:
    login = {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_USERNAME": "u", "SASL_PASSWORD": "p", "SSL_CA_FILE": "/ca"}
    given = read({**SERVERS, **{f"TIDEGATE_KAFKA_{name}": value for name, value in login.items()}})
    stack.check_security(given)

    assert {f"kafka_{name.lower()}": value for name, value in login.items()}.items() <= stack.passed_on(given).items()
