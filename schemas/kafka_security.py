"""How clients of Kafka encrypt their connections and log in.

from tidegate.events import KafkaSecurity, Publisher

security = KafkaSecurity(security_protocol="SASL_SSL", sasl_username="flights", sasl_password_file="/run/secrets/kafka")
async with Publisher("kafka-1:9093", source="flights-import", security=security) as publisher: ...
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self, get_args

import msgspec

from tidegate.schemas.error import RequestError

PREFIX = "TIDEGATE_KAFKA_"

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

DEFAULT_MECHANISM: Mechanism = "SCRAM-SHA-512"
CHOICES: Mapping[str, tuple[str, ...]] = {"security_protocol": get_args(Protocol), "sasl_mechanism": get_args(Mechanism)}
SECRETS = ("sasl_password", "ssl_key_password")


class KafkaSecurity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields are the settings `TIDEGATE_KAFKA_*` in lower case; `daemon/docs/settings.md` describes them.

    A client reads the files when it starts, and a new client replaces one that a broker refuses: renewed certificates and
    passwords need no restart.
    Raises RequestError for fields that contradict each other.
    """

    security_protocol: Protocol = "PLAINTEXT"
    sasl_mechanism: Mechanism = DEFAULT_MECHANISM
    sasl_username: str = ""
    sasl_password: str = ""
    sasl_password_file: str = ""
    ssl_ca_file: str = ""
    ssl_certificate_file: str = ""
    ssl_key_file: str = ""
    ssl_key_password: str = ""
    ssl_key_password_file: str = ""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """The settings of an environment such as `os.environ`. Raises RequestError for an invalid one."""
        names = {field: setting(field) for field in cls.__struct_fields__}
        values = {field: environ[name] for field, name in names.items() if name in environ}
        for field, allowed in CHOICES.items():
            if field in values and values[field] not in allowed:
                raise RequestError(f"{setting(field)} is {values[field]!r}, but must be {' or '.join(allowed)}")
        return msgspec.convert(values, cls)

    def __post_init__(self) -> None:
        for problem in _contradictions(self):
            raise RequestError(problem)

    def __repr__(self) -> str:
        """Without secrets."""
        return f"{type(self).__name__}({self.security_protocol})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("security_protocol", self.security_protocol)]

    @property
    def encrypts(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def logs_in(self) -> bool:
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @property
    def holds_secrets(self) -> bool:
        """Whether a secret is given by its value, and not by a file."""
        return any(getattr(self, name) for name in SECRETS)


def setting(field: str) -> str:
    """The name of the setting of a field."""
    return f"{PREFIX}{field.upper()}"


def _contradictions(security: KafkaSecurity) -> Iterator[str]:
    yield from _without_effect(security)
    for secret in SECRETS:
        if getattr(security, secret) and getattr(security, f"{secret}_file"):
            yield f"{setting(secret)} and {setting(f'{secret}_file')} are both set; set one of them"
    if security.logs_in:
        yield from _missing_login(security)
    if not security.ssl_certificate_file:
        for field in ("ssl_key_file", "ssl_key_password", "ssl_key_password_file"):
            if getattr(security, field):
                yield f"{setting(field)} is set, but {setting('ssl_certificate_file')} is not; set both or none"


def _without_effect(security: KafkaSecurity) -> Iterator[str]:
    """Settings that the protocol ignores: an unencrypted connection would pass unnoticed."""
    for kind, applies in (("sasl_", security.logs_in), ("ssl_", security.encrypts)):
        for field in security.__struct_fields__:
            if not applies and field.startswith(kind) and field != "sasl_mechanism" and getattr(security, field):
                needed = "SASL_SSL" if kind == "sasl_" or security.logs_in else "SSL"
                yield f"{setting(field)} is set, but {_protocol(security)}; set it to {needed}"


def _missing_login(security: KafkaSecurity) -> Iterator[str]:
    if not security.sasl_username and security.sasl_mechanism != "OAUTHBEARER":
        yield f"{setting('sasl_username')} is not set, but {_protocol(security)}; set the user name"
    if not security.sasl_password and not security.sasl_password_file:
        yield f"{setting('sasl_password_file')} is not set, but {_protocol(security)}; set the file with the password or token"


def _protocol(security: KafkaSecurity) -> str:
    return f"{setting('security_protocol')} is {security.security_protocol}"
