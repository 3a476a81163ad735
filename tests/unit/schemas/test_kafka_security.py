"""Settings for TLS and login: contradictions are named, secrets are never shown."""

from collections.abc import Mapping
from typing import get_type_hints

import pytest
from rich.pretty import pretty_repr

from tidegate.daemon.settings import Settings
from tidegate.schemas.error import RequestError
from tidegate.schemas.kafka_security import KafkaSecurity

LOGIN = {"security_protocol": "SASL_SSL", "sasl_username": "u", "sasl_password": "hidden-1"}


def environ(fields: Mapping[str, str]) -> dict[str, str]:
    return {f"TIDEGATE_KAFKA_{field.upper()}": value for field, value in fields.items()}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({**LOGIN, "security_protocol": "SSL"}, "SASL_USERNAME is set, but {}SECURITY_PROTOCOL is SSL; set it to SASL_SSL"),
        ({"sasl_password": "p"}, "SASL_PASSWORD is set, but {}SECURITY_PROTOCOL is PLAINTEXT; set it to SASL_SSL"),
        ({"ssl_ca_file": "/ca"}, "SSL_CA_FILE is set, but {}SECURITY_PROTOCOL is PLAINTEXT; set it to SSL"),
        (
            {**LOGIN, "security_protocol": "SASL_PLAINTEXT", "ssl_ca_file": "/ca"},
            "SSL_CA_FILE is set, but {}SECURITY_PROTOCOL is SASL_PLAINTEXT; set it to SASL_SSL",
        ),
        ({**LOGIN, "sasl_password_file": "/p"}, "SASL_PASSWORD and {}SASL_PASSWORD_FILE are both set; set one of them"),
        ({**LOGIN, "sasl_username": ""}, "SASL_USERNAME is not set, but {}SECURITY_PROTOCOL is SASL_SSL; set the user name"),
        (
            {**LOGIN, "sasl_password": ""},
            "SASL_PASSWORD_FILE is not set, but {}SECURITY_PROTOCOL is SASL_SSL; set the file with the password or token",
        ),
        (
            {"security_protocol": "SSL", "ssl_key_file": "/key"},
            "SSL_KEY_FILE is set, but {}SSL_CERTIFICATE_FILE is not; set both or none",
        ),
        ({"security_protocol": "TLS"}, "SECURITY_PROTOCOL is 'TLS', but must be PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL"),
        (
            {"security_protocol": "\udcff"},
            r"SECURITY_PROTOCOL is '\udcff', but must be PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL",
        ),
        (
            {**LOGIN, "sasl_mechanism": "GSSAPI"},
            "SASL_MECHANISM is 'GSSAPI', but must be PLAIN or SCRAM-SHA-256 or SCRAM-SHA-512 or OAUTHBEARER",
        ),
    ],
)
def test_a_contradiction_is_named_with_what_to_do(fields: Mapping[str, str], sentence: str) -> None:
    with pytest.raises(RequestError) as raised:
        KafkaSecurity.from_environ(environ(fields))

    assert str(raised.value) == f"TIDEGATE_KAFKA_{sentence.format('TIDEGATE_KAFKA_')}"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        LOGIN,
        {**LOGIN, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"},
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_password_file": "/token"},
        {"security_protocol": "SSL", "ssl_certificate_file": "/c", "ssl_key_file": "/k", "ssl_key_password_file": "/p"},
    ],
)
def test_the_environment_is_read_as_it_is(fields: Mapping[str, str]) -> None:
    others = {"TIDEGATE_KAFKA_SERVERS": "k:1", "TIDEGATE_POSTGRES_DSN": "x", "PATH": "/bin"}

    security = KafkaSecurity.from_environ({**others, **environ(fields)})

    assert {field: getattr(security, field) for field in fields} == fields


def test_a_secret_is_never_shown() -> None:
    security = KafkaSecurity.from_environ(environ(LOGIN))

    assert f"{security} {security!r}" == "KafkaSecurity(SASL_SSL) KafkaSecurity(SASL_SSL)"
    assert pretty_repr(security) == "KafkaSecurity(security_protocol='SASL_SSL')"


@pytest.mark.parametrize(
    ("fields", "holds"),
    [(LOGIN, True), ({**LOGIN, "sasl_password": "", "sasl_password_file": "/p"}, False), ({}, False)],
)
def test_a_secret_by_value_is_known_as_one(fields: Mapping[str, str], holds: bool) -> None:
    assert KafkaSecurity.from_environ(environ(fields)).holds_secrets is holds


def test_each_field_is_a_setting_of_the_same_type() -> None:
    types, settings = get_type_hints(KafkaSecurity), get_type_hints(Settings)

    assert {field: settings[f"kafka_{field}"] for field in types} == types
