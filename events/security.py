"""The options of Kafka clients for encryption and login, and why a broker refuses a connection."""

import ssl
from pathlib import Path
from typing import Any

import anyio
from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from tidegate.schemas.error import UnavailableError
from tidegate.schemas.kafka_security import KafkaSecurity, setting

PLAINTEXT = KafkaSecurity()
"""Neither encryption nor login."""

PROBE_S = 2.0
MARGIN_S = 0.1
_PEM_HINT = "write a PEM file there that this user can read"
_HOSTNAME_MISMATCH = 62
_ADDRESS_MISMATCH = 64


def client_options(security: KafkaSecurity) -> dict[str, Any]:
    """The options of an aiokafka client. Raises UnavailableError for a file that cannot be read: it may appear later."""
    options: dict[str, Any] = {"security_protocol": security.security_protocol}
    if security.encrypts:
        options["ssl_context"] = _ssl_context(security)
    if security.logs_in:
        options |= _login(security)
    return options


def _login(security: KafkaSecurity) -> dict[str, Any]:
    if security.sasl_mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": security.sasl_mechanism, "sasl_oauth_token_provider": _Token(security)}
    return {
        "sasl_mechanism": security.sasl_mechanism,
        "sasl_plain_username": security.sasl_username,
        "sasl_plain_password": _secret(security, "sasl_password"),
    }


class _Token:
    """The token is read at each connection: its issuer replaces the file before the token expires."""

    def __init__(self, security: KafkaSecurity) -> None:
        self._security = security
        _secret(security, "sasl_password")

    async def token(self) -> str:
        return await anyio.to_thread.run_sync(_secret, self._security, "sasl_password")


AbstractTokenProvider.register(_Token)


def _ssl_context(security: KafkaSecurity) -> ssl.SSLContext:
    """The host name of a broker is always verified."""
    try:
        context = ssl.create_default_context(cafile=security.ssl_ca_file or None)
    except OSError as error:
        raise _unusable("ssl_ca_file", security.ssl_ca_file, error, _PEM_HINT) from error
    if security.ssl_certificate_file:
        _load_certificate(context, security)
    return context


def _load_certificate(context: ssl.SSLContext, security: KafkaSecurity) -> None:
    certificate, key = security.ssl_certificate_file, security.ssl_key_file or None
    password = _secret(security, "ssl_key_password")
    for field, path in (("ssl_certificate_file", certificate), ("ssl_key_file", key)):
        if path is not None:
            _check_readable(field, path)
    try:
        # A function, because OpenSSL asks for a missing password on the terminal.
        context.load_cert_chain(certificate, key, lambda: password)
    except OSError as error:
        hint = f"it must fit its key, and an encrypted key needs {setting('ssl_key_password_file')}"
        raise _unusable("ssl_certificate_file", certificate, error, hint) from error


def _check_readable(field: str, path: str) -> None:
    try:
        with Path(path).open("rb"):
            return
    except OSError as error:
        raise _unusable(field, path, error, _PEM_HINT) from error


def _secret(security: KafkaSecurity, field: str) -> str:
    """The value, or the content of the file without the line break at its end."""
    path = str(getattr(security, f"{field}_file"))
    if not path:
        return str(getattr(security, field))
    try:
        content = Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(f"{field}_file", path, error, "write the secret there, in a file that this user can read") from error
    if not content:
        raise UnavailableError(f"{setting(f'{field}_file')}: {path} is empty; write the secret there")
    return content


def _unusable(field: str, path: str, error: Exception, hint: str) -> UnavailableError:
    why = getattr(error, "strerror", None) or "is not text"
    return UnavailableError(f"{setting(field)}: {path} cannot be used: {why}; {hint}")


async def refusal(network: Any, security: KafkaSecurity) -> str | None:
    """Why the bootstrap servers of a client refuse a connection; None if they do not, or do not answer.

    The client tries them all and then forgets the reasons.
    """
    # Before the deadline of the caller, whose error would hide the reason.
    deadline = min(anyio.current_time() + PROBE_S, anyio.current_effective_deadline() - MARGIN_S)
    with anyio.CancelScope(deadline=deadline):
        for host, port, _ in network.hosts:
            if (why := await _refusal_of(host, port, security)) is not None:
                return why
    return None


async def _refusal_of(host: str, port: int, security: KafkaSecurity) -> str | None:
    connection = AIOKafkaConnection(host, port, request_timeout_ms=PROBE_S * 1000, **client_options(security))
    try:
        await connection.connect()
    except (KafkaError, OSError) as error:
        return explain(error, security)
    finally:
        connection.close()
    return None


def explain(error: BaseException, security: KafkaSecurity) -> str | None:
    """What is wrong with the encryption or the login, and what to do about it; None if an error is about something else."""
    match error:
        case ssl.SSLError():
            return _no_handshake(error, security)
        case KafkaConnectionError(__cause__=ssl.SSLError() as cause):
            return _no_handshake(cause, security)
        case KafkaConnectionError():
            return _closed(security)
        case ConnectionResetError() if security.encrypts:
            return _closed(security)
        case _:
            return _no_login(error, security)


def _no_login(error: BaseException, security: KafkaSecurity) -> str | None:
    match error:
        case UnsupportedSaslMechanismError():
            return f"it does not offer {security.sasl_mechanism}; set {setting('sasl_mechanism')} to one of its mechanisms"
        case IllegalSaslStateError():
            return f"it asks for no login; set {setting('security_protocol')} to {'SSL' if security.encrypts else 'PLAINTEXT'}"
        case SaslAuthenticationFailed():
            return _refused_login(security)
        case _:
            return None


def _untrusted(error: ssl.SSLCertVerificationError) -> str:
    why = error.verify_message
    if error.verify_code in (_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH):
        return f"its certificate is for another host ({why}); name it in {setting('servers')} as the certificate does"
    return f"its certificate is not trusted ({why}); set {setting('ssl_ca_file')} to the certificate of its CA"


def _no_handshake(error: ssl.SSLError, security: KafkaSecurity) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error)
    reason = (error.reason or "unknown").replace("_", " ").lower()
    if "certificate" in reason or "unknown ca" in reason:
        state = "does not accept" if security.ssl_certificate_file else "requires"
        return f"it {state} a certificate of the client ({reason}); set {setting('ssl_certificate_file')} to one that it trusts"
    protocol = setting("security_protocol")
    return f"the TLS handshake failed ({reason}); check the port, and that {protocol} is that of its listener"


def _refused_login(security: KafkaSecurity) -> str:
    if security.sasl_mechanism == "OAUTHBEARER":
        return f"it refused the token; renew the file of {setting('sasl_password_file')}"
    login = f"the login of {security.sasl_username!r} by {security.sasl_mechanism}"
    return f"it refused {login}; check {setting('sasl_username')} and {setting('sasl_password_file')}"


def _closed(security: KafkaSecurity) -> str:
    protocol = f"{setting('security_protocol')} ({security.security_protocol})"
    return f"it closes connections; check that {protocol} is the protocol of its listener"
