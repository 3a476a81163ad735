"""Settings come from the environment, and mistakes in them are named."""

import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from tidegate.daemon.settings import SettingsError, dags_root, host_and_port, read, spool_root
from tidegate.schemas.wire.event import Kind

SERVERS = {"TIDEGATE_POSTGRES_DSN": "postgresql://u:p@db:5432/t", "TIDEGATE_KAFKA_SERVERS": "broker:9092"}


def test_two_settings_are_enough() -> None:
    settings = read(SERVERS)

    assert (settings.postgres_dsn, settings.kafka_servers) == ("postgresql://u:p@db:5432/t", "broker:9092")
    assert (settings.host, settings.topic_partitions) == (socket.gethostname(), 12)


def test_what_is_set_is_read_in_its_type() -> None:
    settings = read({**SERVERS, "TIDEGATE_SWEEP_S": "0.5", "TIDEGATE_BATCH_RECORDS": "7", "TIDEGATE_DEBUG": "true"})

    assert (settings.sweep_s, settings.batch_records, settings.debug) == (0.5, 7, True)


def test_the_rest_of_the_environment_is_not_ours() -> None:
    assert read({**SERVERS, "PATH": "/bin", "MY_TIDEGATE_SWEEP_S": "x"}) == read(SERVERS)


@pytest.mark.parametrize(
    "service",
    [
        {"TIDEGATE_SERVICE_HOST": "10.0.0.7", "TIDEGATE_SERVICE_PORT": "8780", "TIDEGATE_SERVICE_PORT_HTTP": "8780"},
        {
            "TIDEGATE_WEB_SERVICE_HOST": "10.0.0.7",
            "TIDEGATE_WEB_SERVICE_PORT": "8780",
            "TIDEGATE_WEB_PORT": "tcp://10.0.0.7:8780",
        },
        {
            "TIDEGATE_PORT": "tcp://10.0.0.7:8780",
            "TIDEGATE_SMTP_PORT": "tcp://[fd00::7]:25",
            "TIDEGATE_DNS_PORT": "udp://10.0.0.7:53",
        },
        {"TIDEGATE_PORT_8780_TCP": "tcp://10.0.0.7:8780", "TIDEGATE_WEB_PORT_8780_TCP_ADDR": "10.0.0.7"},
    ],
)
def test_the_places_of_services_are_no_settings(service: Mapping[str, str]) -> None:
    assert read({**SERVERS, **service}) == read(SERVERS)


def test_a_folder_without_a_name_is_not_set() -> None:
    empty = {"TIDEGATE_DAGS_FOLDER": "", "TIDEGATE_SECRETS_DIR": "", "TIDEGATE_CACHE": ""}

    assert read({**SERVERS, **empty}) == read(SERVERS)
    assert read({**SERVERS, "TIDEGATE_TOPIC_PREFIX": ""}).topic_prefix == ""


def test_settings_do_not_change() -> None:
    with pytest.raises(AttributeError):
        read(SERVERS).sweep_s = 2.0  # type: ignore[misc]  # mypy says so, too


@pytest.mark.parametrize("missing", SERVERS)
@pytest.mark.parametrize("as_", ["absent", "empty"])
def test_a_server_that_is_needed_must_be_named(missing: str, as_: str) -> None:
    others = {name: value for name, value in SERVERS.items() if name != missing}
    environ = others if as_ == "absent" else {**others, missing: ""}

    with pytest.raises(SettingsError, match=rf"^{missing} is not set; set it to something like \S+$"):
        read(environ)


def test_a_server_that_is_not_needed_may_be_left_unset() -> None:
    settings = read({"TIDEGATE_POSTGRES_DSN": "postgresql://localhost/t"}, needs=["postgres_dsn"])

    assert settings.kafka_servers == ""


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"TIDEGATE_SWEEP": "1"}, "TIDEGATE_SWEEP is not a setting; did you mean TIDEGATE_SWEEP_S?"),
        ({"TIDEGATE_XYZZY_Q": "1"}, "TIDEGATE_XYZZY_Q is not a setting"),
        ({"TIDEGATE_PORT": "8780"}, "TIDEGATE_PORT is not a setting; did you mean TIDEGATE_WEB_PORT?"),
        ({"TIDEGATE_WEB_PORT": "tcp"}, "TIDEGATE_WEB_PORT is 'tcp', but must be a whole number"),
        ({"TIDEGATE_SWEEP_S": "soon"}, "TIDEGATE_SWEEP_S is 'soon', but must be a number"),
        ({"TIDEGATE_SWEEP_S": "0"}, "TIDEGATE_SWEEP_S is '0', but must be a number > 0.0"),
        ({"TIDEGATE_SWEEP_S": "-1"}, "TIDEGATE_SWEEP_S is '-1', but must be a number > 0.0"),
        ({"TIDEGATE_SWEEP_S": "inf"}, "TIDEGATE_SWEEP_S is 'inf', but must be a number <= 100000000.0"),
        ({"TIDEGATE_DEDUPE_DAYS": "36501"}, "TIDEGATE_DEDUPE_DAYS is '36501', but must be a whole number <= 36500"),
        ({"TIDEGATE_RUN_EVENTS": "9999999999"}, "TIDEGATE_RUN_EVENTS is '9999999999', but must be a whole number <= 2147483647"),
        (
            {"TIDEGATE_WEB_REQUESTS_PER_S": "inf"},
            "TIDEGATE_WEB_REQUESTS_PER_S is 'inf', but must be a number <= 2147483647.0",
        ),
        ({"TIDEGATE_LEASE_TTL_S": "4"}, "TIDEGATE_LEASE_RENEW_S must be at most 1.6 s with this TIDEGATE_LEASE_TTL_S"),
        (
            {"TIDEGATE_RUNNER_HEARTBEAT_S": "300"},
            "TIDEGATE_RUNNER_HEARTBEAT_S must be at most 225 s with this TIDEGATE_RUNNER_SILENT_S",
        ),
        ({"TIDEGATE_POOL_CONNECTIONS": "many"}, "TIDEGATE_POOL_CONNECTIONS is 'many', but must be a whole number"),
        ({"TIDEGATE_POOL_CONNECTIONS": "1.5"}, "TIDEGATE_POOL_CONNECTIONS is '1.5', but must be a whole number"),
        ({"TIDEGATE_POOL_CONNECTIONS": "0"}, "TIDEGATE_POOL_CONNECTIONS is '0', but must be a whole number >= 1"),
        (
            {"TIDEGATE_KAFKA_SASL_MECHANISM": "GSSAPI"},
            "TIDEGATE_KAFKA_SASL_MECHANISM is 'GSSAPI', but must be PLAIN or SCRAM-SHA-256 or SCRAM-SHA-512 or OAUTHBEARER",
        ),
        (
            {"TIDEGATE_KAFKA_SSL_CA_FILE": "/ca"},
            "TIDEGATE_KAFKA_SSL_CA_FILE is set, but TIDEGATE_KAFKA_SECURITY_PROTOCOL is PLAINTEXT; set it to SSL",
        ),
        (
            {"TIDEGATE_SPARK_CLUSTERS": '{"a": {"master": ""}}'},
            "TIDEGATE_SPARK_CLUSTERS: cluster 'a' needs a master, a remote or both",
        ),
        *(
            ({f"TIDEGATE_{name}": wrong}, f"TIDEGATE_{name} is {wrong!r}; write an address and a port, like 127.0.0.1:9464")
            for name, wrong in (
                ("METRICS_ADDRESS", "9464"),
                ("METRICS_ADDRESS", ":9464"),
                ("METRICS_ADDRESS", "127.0.0.1"),
                ("METRICS_ADDRESS", "127.0.0.1:65536"),
                ("METRICS_ADDRESS", "http://127.0.0.1:9464"),
                ("METRICS_ADDRESS", "::1:9464"),
                ("WEB_METRICS_ADDRESS", "localhost:http"),
            )
        ),
        ({"TIDEGATE_DEBUG": "maybe"}, "TIDEGATE_DEBUG is 'maybe', but must be true or false"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_must_be(wrong: Mapping[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read({**SERVERS, **wrong})

    assert str(raised.value) == sentence


@pytest.mark.parametrize("dsn", ["db:5432", "http://db/t", "postgresql://u:p#ss@db/t", "postgresql://u:secret:x"])
def test_what_is_no_postgres_address_is_refused_without_quoting_it(dsn: str) -> None:
    with pytest.raises(SettingsError, match=r"^TIDEGATE_POSTGRES_DSN is no Postgres address") as raised:
        read({**SERVERS, "TIDEGATE_POSTGRES_DSN": dsn})

    assert dsn not in str(raised.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://localhost/t",
        "postgres://u:p@[::1]:5432/t",
        "postgresql://a:1,b:2/t?target_session_attrs=any",
        "postgresql://u:p%2C%40@db-1:5432,[fe80::1]:5433,db-3/t?target_session_attrs=read-write",
    ],
)
def test_every_shape_of_postgres_address_is_accepted(dsn: str) -> None:
    assert read({**SERVERS, "TIDEGATE_POSTGRES_DSN": dsn}).postgres_dsn == dsn


def test_topics_have_the_prefix() -> None:
    settings = msgspec.structs.replace(read(SERVERS), topic_prefix="cell-1.")

    assert settings.topic(Kind.DATASET_UPDATED) == "cell-1.dataset-updated"


def test_the_dag_folder_is_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert dags_root(read(SERVERS)) == tmp_path / "dags"


def test_the_spool_is_below_the_home_directory_by_default() -> None:
    assert spool_root(read(SERVERS)) == Path.home() / ".local/state/tidegate/spool"


@pytest.mark.parametrize("relative", ["", "spool", "./spool", "~unknown-user/spool"])
def test_a_spool_that_depends_on_the_working_directory_is_refused(relative: str) -> None:
    with pytest.raises(SettingsError, match=rf"^TIDEGATE_SPOOL_DIR is '{relative}', but must be an absolute path$"):
        spool_root(read({**SERVERS, "TIDEGATE_SPOOL_DIR": relative}))


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("DAG_ENV", "STAGE, TIDEGATE_POSTGRES_DSN", "TIDEGATE_POSTGRES_DSN is a setting, which DAG files never read"),
        ("DAG_ENV", "STAGE REGION", "'STAGE REGION' is no name of a variable; separate names by commas"),
        ("DAG_READS", "/etc/etl,config", "'config' is no absolute path; separate paths by commas"),
    ],
)
def test_what_dag_files_may_read_is_named_by_names_and_absolute_paths(name: str, value: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=f"^TIDEGATE_{name}: {problem}$"):
        read({**SERVERS, f"TIDEGATE_{name}": value})


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("", None),
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("metrics.example.org:0", ("metrics.example.org", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_an_address_of_metrics_has_a_host_and_a_port(address: str, parts: tuple[str, int] | None) -> None:
    assert host_and_port("metrics_address", read({**SERVERS, "TIDEGATE_METRICS_ADDRESS": address}).metrics_address) == parts
