"""What a webhook is sent, and what its answer means."""

import errno
import socket
import ssl

import httpx
import msgspec
import pytest

from tests.unit.daemon.duties.receivers.test_mail import context
from tidegate.daemon.duties.receivers.delivery import Delivery, Failed, Sent, label, why
from tidegate.daemon.duties.receivers.webhook import body_of, delivery_of, headers_of, signature
from tidegate.schemas.receiver import EmailReceiver, FunctionReceiver, Receiver, WebhookReceiver


def test_the_signature_is_the_one_that_receivers_compute() -> None:
    """`printf '1714564800.{"a":1}' | openssl dgst -sha256 -hmac secret`."""
    assert signature(b'{"a":1}', "secret", 1714564800) == (
        "sha256=c378938cf1c2d1311146ca91a45734efb5d800a5375a7689e0c736149d7e71fa"
    )


def test_the_signature_covers_the_time_and_the_body_and_needs_the_secret() -> None:
    signatures = {
        signature(b"body", "secret", 1),
        signature(b"body", "secret", 2),
        signature(b"other", "secret", 1),
        signature(b"body", "other", 1),
    }

    assert len(signatures) == 4


def test_a_body_that_is_no_json_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        body_of(WebhookReceiver("https://x", "{"), context())


def test_every_try_has_the_same_key_and_its_own_time() -> None:
    headers = headers_of("key", b"{}", "secret", 17)

    assert (headers["Idempotency-Key"], headers["X-Tidegate-Delivery"], headers["X-Tidegate-Timestamp"]) == ("key", "key", "17")
    assert headers["X-Tidegate-Signature"] == signature(b"{}", "secret", 17)


def test_nothing_is_signed_without_a_secret() -> None:
    assert "X-Tidegate-Signature" not in headers_of("key", b"{}", "", 17)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, Sent()),
        (204, Sent()),
        (301, Failed("it answered 301 Moved Permanently; redirects are not followed")),
        (400, Failed("it answered 400 Bad Request", final=True)),
        (404, Failed("it answered 404 Not Found", final=True)),
        (408, Failed("it answered 408 Request Timeout")),
        (429, Failed("it answered 429 Too Many Requests")),
        (500, Failed("it answered 500 Internal Server Error")),
        (599, Failed("it answered 599")),
    ],
)
def test_only_a_success_acknowledges_and_only_a_refusal_is_final(status: int, expected: Delivery) -> None:
    assert delivery_of(httpx.Response(status)) == expected


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def untrusted(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = code, message
    return error


UNREACHABLE = OSError(errno.ENETUNREACH, "Connect call failed ('::1', 9)")
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (caused(httpx.ConnectError("All connection attempts failed"), REFUSED), "Connection refused"),
        (caused(httpx.ConnectError("all failed"), ExceptionGroup("all", [REFUSED, OSError()])), "Connection refused"),
        (
            caused(httpx.ConnectError("all failed"), ExceptionGroup("all", [UNREACHABLE, REFUSED, UNREACHABLE])),
            "Network is unreachable; Connection refused",
        ),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (ssl.SSLError(1, "wrong version number"), "wrong version number"),
        (
            caused(httpx.ConnectError("verify failed"), untrusted(18, "self-signed certificate")),
            "its certificate is refused (self-signed certificate);"
            " to trust it, set SSL_CERT_FILE of the daemon to a file with its authority",
        ),
        (untrusted(10, "certificate has expired"), "its certificate is refused (certificate has expired)"),
        (httpx.RemoteProtocolError("Server disconnected"), "Server disconnected"),
        (caused(httpx.InvalidURL("Invalid port"), ValueError("invalid literal")), "Invalid port"),
        (ValueError(), "ValueError"),
    ],
)
def test_what_a_connection_failed_of_is_its_first_cause(error: Exception, words: str) -> None:
    assert why(error) == words


@pytest.mark.parametrize(
    ("receiver", "shown"),
    [
        (EmailReceiver(("a@b.c", "d@e.f")), "mail to a@b.c, d@e.f"),
        (WebhookReceiver("https://user:secret@hooks.example.org:8443/T0/B1?token=x"), "https://hooks.example.org:8443"),
        (WebhookReceiver("http://example.org?token=x"), "http://example.org"),
        (WebhookReceiver("http://[::1:80/"), "http://[::1:80"),
        (FunctionReceiver("tell"), "tell()"),
    ],
)
def test_a_receiver_is_shown_without_what_may_be_secret(receiver: Receiver, shown: str) -> None:
    assert label(receiver) == shown
