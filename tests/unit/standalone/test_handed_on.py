"""Which settings of its environment a standalone hands on to its processes, and which it says that it does not use."""

from pathlib import Path

import pytest

from tidegate.daemon.settings import Settings, environment, read
from tidegate.daemon.standalone.handed_on import (
    DECIDED,
    OF_COMMANDS,
    chosen_in,
    to_clients_of_kafka,
    to_daemon,
    to_shells,
    to_web,
    unused,
)
from tidegate.daemon.standalone.stack import decided

SERVERS = {"TIDEGATE_POSTGRES_DSN": "postgresql://localhost/t", "TIDEGATE_KAFKA_SERVERS": "localhost:9092"}
BOTH = {
    "SPARK_CLUSTERS": '{"nightly": {"master": "local[1]"}}',
    "SECRETS_DIR": "/etc/secrets",
    "PARALLELISM": "3",
    "UNKNOWN_DATASETS": "reject",
    "SPARK_MASTER": "local[1]",
    "DEBUG": "true",
    "SPARK_UI_URL": "http://ui/",
    "PRODUCER_URL": "http://p/",
    "NOTIFY_TRIES": "2",
    "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "KAFKA_SASL_USERNAME": "u",
    "KAFKA_SASL_PASSWORD": "p",
    "KAFKA_SSL_CA_FILE": "/ca",
}
DAEMON = {"SMTP_HOST": "mail", "SMTP_STARTTLS": "false", "WEBHOOK_SECRET": "s"}
WEB = {"OIDC_ISSUER": "https://id", "LOGIN_ROLES": "{}", "PROXY_ADDRESSES": "10.0.0.5", "WEB_DSN": "postgresql://b/t"}
MORE_WEB = {"EDITORS": "{}", "WEB_REQUESTS_PER_S": "7"}


def given(**values: str) -> Settings:
    return read({**SERVERS, **environment(values)})


def test_each_process_gets_all_settings_but_the_secrets_of_the_other_one() -> None:
    everything = given(**BOTH, **DAEMON, **WEB, **MORE_WEB)

    daemon, web = to_daemon(everything), to_web(everything)

    assert given(**daemon) == given(**BOTH, **DAEMON)
    assert given(**web) == given(**BOTH, **WEB, **MORE_WEB)
    assert daemon.keys() | web.keys() == set(Settings.__struct_fields__) - {*DECIDED, *OF_COMMANDS}
    assert set(to_clients_of_kafka(everything)) == {name for name in Settings.__struct_fields__ if name.startswith("kafka_")} - {
        "kafka_servers"
    }


def test_a_postgres_to_read_from_belongs_to_a_given_one() -> None:
    assert to_web(Settings(postgres_dsn="", kafka_servers="", web_dsn="postgresql://b/t"))["web_dsn"] == ""


@pytest.mark.parametrize(
    ("setting", "value", "handed_on"),
    [
        ("secrets_dir", "secrets", str(Path("secrets").absolute())),
        ("secrets_dir", "~/secrets", "~/secrets"),
        ("secrets_dir", "/secrets", "/secrets"),
        ("oidc_client_secret_file", "secret", str(Path("secret").absolute())),
        ("oidc_client_secret_file", "", ""),
    ],
)
def test_a_path_means_the_same_in_the_folder_of_the_process(setting: str, value: str, handed_on: str) -> None:
    assert to_web(given(**{setting: value}))[setting] == handed_on


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, {}),
        ({"secrets_dir": "secrets"}, {"secrets_dir": str(Path("secrets").absolute())}),
        ({"spark_clusters": "{}", "spark_master": "yarn", "parallelism": "3"}, {"spark_clusters": "{}", "spark_master": "yarn"}),
        ({"dag_env": "STAGE", "dag_reads": "/etc/etl"}, {"dag_env": "STAGE", "dag_reads": "/etc/etl"}),
    ],
)
def test_another_shell_gets_what_its_commands_need_to_agree_with_the_daemon(values: dict[str, str], told: dict[str, str]) -> None:
    assert to_shells(given(**values), chosen_in(environment(values))) == told


USED = {"spark_remote": "sc://127.0.0.1:5001", "spool_dir": "/home/spool", "host": "here"}


@pytest.mark.parametrize(
    ("dsn", "values", "line"),
    [
        ("", {}, ""),
        ("", USED, ""),
        ("", {"spark_remote": "sc://other:15002"}, "not used, because standalone has its own: TIDEGATE_SPARK_REMOTE"),
        (
            "",
            {"spark_remote": Settings(postgres_dsn="", kafka_servers="").spark_remote},
            "not used, because standalone has its own: TIDEGATE_SPARK_REMOTE",
        ),
        ("", {"host": "elsewhere"}, "not used, because standalone has its own: TIDEGATE_HOST"),
        (
            "",
            {"spool_dir": "/other", "web_host": "10.0.0.7", "web_dsn": "postgresql://b/t"},
            "not used, because standalone has its own: TIDEGATE_SPOOL_DIR, TIDEGATE_WEB_HOST, TIDEGATE_WEB_DSN",
        ),
        ("postgresql://a/t", {"web_dsn": "postgresql://b/t"}, ""),
        ("postgresql://a/t", {"parallelism": "3", "topic_prefix": "mine.", "dags_folder": "mine"}, ""),
    ],
)
def test_a_line_names_the_settings_that_standalone_decides(dsn: str, values: dict[str, str], line: str) -> None:
    environ = {**SERVERS, "TIDEGATE_POSTGRES_DSN": dsn, **environment(values)}
    settings = read(environ, needs=())

    assert unused(settings, decided(USED, settings), chosen_in(environ)) == line
