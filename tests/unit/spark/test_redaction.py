"""What a runner tells has no credentials of the address of Spark Connect."""

import logging

import pytest

from tidegate.daemon.spark.runner.redaction import RedactingFormatter, Redaction


@pytest.mark.parametrize(
    ("remote", "text", "redacted"),
    [
        ("sc://host:15002", "it failed at sc://host:15002", "it failed at sc://host:15002"),
        ("sc://host/;token=s3cret", "invalid URL sc://host/;token=s3cret", "invalid URL sc://host/;***"),
        ("sc://host/;token=s3cret", "UNAUTHENTICATED: Bearer s3cret", "UNAUTHENTICATED: Bearer ***"),
        ("sc://host/;token=a%2Fb%3D", "refused a/b= and a%2Fb%3D", "refused *** and ***"),
        ("sc://host/;use_ssl=true;x-api-key=12345;user_id=ops", "12345 of ops: true", "*** of ops: true"),
        ("sc://host/;token=ab", "about ;token=ab", "about ;***"),
        ("sc://ops:pass@host/", "no route to ops:pass@host", "no route to ***@host"),
        ("sc://host/;token=long-s3cret", "the header was long-s3c…", "the header was ***…"),
        ("sc://host/;token=long-s3cret;key=long", "long-s3cret", "***"),
    ],
)
def test_secrets_are_hidden(remote: str, text: str, redacted: str) -> None:
    assert Redaction(remote)(text) == redacted


def test_a_traceback_in_the_log_is_redacted() -> None:
    formatter = RedactingFormatter(logging.Formatter("%(message)s"), Redaction("sc://host/;token=s3cret"))
    error = ValueError("sc://host/;token=s3cret")
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "with %s", ("s3cret",), (type(error), error, None))

    assert "s3cret" not in formatter.format(record)
    assert formatter.format(record).endswith("ValueError: sc://host/;***")
