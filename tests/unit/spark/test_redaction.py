"""What a runner tells has no credentials of the address of Spark Connect."""

import logging
import sys
from collections.abc import Callable
from typing import Any

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
        ("sc://host/;token=long-s3cret", "the header was long, but long-s3c…", "the header was long, but ***…"),
        ("sc://host/;token=long-s3cret", "the header was lon…", "the header was lon…"),
        ("sc://host/;token=long-s3cret", "it takes long…", "it takes ***…"),
        ("sc://host/;token=long-s3cret", "it takes longer…", "it takes longer…"),
        ("sc://host/;token=long-s3cret;key=long", "long-s3cret", "***"),
    ],
)
def test_secrets_are_hidden(remote: str, text: str, redacted: str) -> None:
    assert Redaction(remote)(text) == redacted


def calls(work: Callable[[], object]) -> int:
    """The calls of functions of Python and C that `work` makes."""
    count, before = 0, sys.getprofile()

    def profile(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("end", ["", "…", f"{'s' * 100}…"])
def test_a_long_secret_makes_no_line_expensive(end: str) -> None:
    redact = Redaction("sc://host")
    redact.hide([f"{'s' * 30_000}{'t' * 35_000}"])

    assert calls(lambda: redact(f"a line of the log {end}")) < 50


def test_a_traceback_in_the_log_is_redacted() -> None:
    formatter = RedactingFormatter(logging.Formatter("%(message)s"), Redaction("sc://host/;token=s3cret"))
    error = ValueError("sc://host/;token=s3cret")
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "with %s", ("s3cret",), (type(error), error, None))

    assert "s3cret" not in formatter.format(record)
    assert formatter.format(record).endswith("ValueError: sc://host/;***")
