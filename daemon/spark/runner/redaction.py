"""Removes secrets from what a runner tells: reasons of outcomes and lines of its log.

These are the credentials in the address of Spark Connect, and the secrets of the task.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import quote, unquote

from tidegate.daemon.spark.runner import secrets
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Job

HARMLESS = frozenset({"user_id", "session_id", "user_agent", "use_ssl", "grpc_max_message_size"})
"""Parameters without a secret. All others are sent as headers, such as `token` and keys of gateways."""

HIDDEN, CUT = "***", "…"
SHORTEST = 4
"""Shorter values occur in other words; they are hidden only after the name of their parameter."""


class Redaction:
    """Replaces the secrets of one address, and more that are added."""

    def __init__(self, remote: str) -> None:
        self._secrets: list[str] = []
        self._add(_secrets(remote))

    def hide(self, secrets: Iterable[str]) -> None:
        """Replace these, and each of their lines, from now on."""
        self._add(line for secret in secrets for line in (secret, *secret.splitlines()) if len(line) >= SHORTEST)

    def _add(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({*self._secrets, *secrets}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return self._without_cut_secret(text)

    def _without_cut_secret(self, text: str) -> str:
        """The text without the begin of a secret before the ellipsis of a text that was cut."""
        if not text.endswith(CUT):
            return text
        kept = text.removesuffix(CUT)
        length = max((_begun(secret, kept) for secret in self._secrets), default=0)
        return f"{kept[: len(kept) - length]}{HIDDEN}{CUT}" if length else text


def redaction_of(job: Job) -> Redaction | None:
    """The redaction of a job's address and secrets. None where the secrets cannot be read: then nothing may be told."""
    with suppress(TaskError):
        redact = Redaction(job.spark_remote)
        redact.hide(secrets.read_all(job).values())
        return redact
    return None


class RedactingFormatter(logging.Formatter):
    """Formats as another formatter does, and redacts the result with its traceback."""

    def __init__(self, formatter: logging.Formatter, redact: Redaction) -> None:
        super().__init__()
        self._formatter = formatter
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(self._formatter.format(record))


def redact_log(redact: Redaction) -> None:
    """Redact all that this process logs from now on."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(RedactingFormatter(handler.formatter or logging.Formatter(), redact))


def _begun(secret: str, text: str) -> int:
    """The number of characters at the end of `text` that begin a longer secret: at least `SHORTEST`, or 0."""
    tail = text[max(0, len(text) - len(secret) + 1) :]
    at = tail.find(secret[:SHORTEST])
    while at >= 0 and not secret.startswith(tail[at:]):
        at = tail.find(secret[:SHORTEST], at + 1)
    return len(tail) - at if at >= 0 else 0


def _secrets(remote: str) -> Iterator[str]:
    """Each secret, as it stands in the address and as Spark decodes it."""
    authority = remote.partition("://")[2].partition("/")[0]
    if "@" in authority:
        yield authority.rpartition("@")[0]
    for parameter in remote.partition(";")[2].split(";"):
        name, _, value = parameter.partition("=")
        if value and name not in HARMLESS:
            yield parameter
            yield from (form for form in (value, unquote(value), quote(unquote(value), safe="")) if len(form) >= SHORTEST)
