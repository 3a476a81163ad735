"""Settings: `TIDEGATE_*` from the environment into one frozen value."""

import re
import socket
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta

from tidegate.schemas.error import TidegateError
from tidegate.schemas.wire.event import Kind

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]

PREFIX = "TIDEGATE_"

SERVERS = {"postgres_dsn": "postgresql://user@localhost:5432/tidegate", "kafka_servers": "localhost:9092"}
"""The settings without a default, each with an example of one."""

_HOST = re.compile(r"(\[[\da-fA-F:.%]+\]|[^:\[\]]*)(:\d{1,5})?")


class SettingsError(TidegateError):
    """A setting is missing, unknown or has a value that cannot be; the message names it."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting there is. Durations end in `_s` and are in seconds; sizes end in `_mb` and are in MiB."""

    postgres_dsn: str
    kafka_servers: str
    dags_folder: str = "dags"
    spool_dir: str = ".tidegate/spool"
    spool_days: Count = 14
    cache: str = "~/.cache/tidegate"
    host: str = msgspec.field(default_factory=socket.gethostname)

    topic_prefix: str = "tidegate."
    topic_partitions: Count = 12
    topic_replication: Count = 1
    topic_min_in_sync: NotNegative = 0

    lease_ttl_s: Positive = 10.0
    lease_renew_s: Positive = 2.0
    sweep_s: Positive = 1.0
    batch_records: Count = 1000
    pool_connections: Count = 8
    dedupe_days: Count = 14
    ledger_days: Count = 90
    unknown_datasets: Literal["record", "reject"] = "record"

    parse_wall_s: Positive = 30.0
    parse_cpu_s: Count = 20
    parse_memory_mb: Count = 512
    parse_output_mb: Count = 4
    dags_scan_s: Positive = 30.0

    spark_remote: str = "sc://127.0.0.1:15002"
    spark_master: str = "local[2]"
    dispatch_concurrency: Count = 8
    parallelism: NotNegative = 0
    fair_after_s: Positive = 60.0
    runner_heartbeat_s: Positive = 5.0
    runner_silent_s: Positive = 300.0
    queued_timeout_s: Positive = 600.0

    smtp_host: str = ""
    smtp_port: Annotated[int, Meta(ge=1, le=65_535)] = 587
    smtp_from: str = ""
    smtp_starttls: bool = True
    smtp_user: str = ""
    smtp_password: str = ""
    webhook_secret: str = ""
    notify_tries: Count = 8
    notify_retry_s: Positive = 5.0
    notify_timeout_s: Positive = 10.0
    callback_timeout_s: Positive = 300.0

    log_format: str = "auto"
    debug: bool = False

    def topic(self, kind: Kind) -> str:
        """The topic that carries a kind of event."""
        return f"{self.topic_prefix}{kind}"


def read(environ: Mapping[str, str], *, needs: Collection[str] = tuple(SERVERS)) -> Settings:
    """`needs` are the servers that will be used; the others may be left unset, and are empty then.

    Raises SettingsError naming the setting, and what to do about it.
    """
    values = {name.removeprefix(PREFIX).lower(): value for name, value in environ.items() if name.startswith(PREFIX)}
    for name in values:
        if name not in Settings.__struct_fields__:
            raise SettingsError(f"{PREFIX}{name.upper()} is not a setting{_hint(name)}")
    for name in needs:
        if not values.get(name):
            raise SettingsError(f"{PREFIX}{name.upper()} is not set; set it to something like {SERVERS[name]}")
    if values.get("postgres_dsn"):
        _check_dsn(values["postgres_dsn"])
    values = {**dict.fromkeys(SERVERS, ""), **values}
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(_sentence(str(error), values)) from error


def dags_root(settings: Settings) -> Path:
    """The DAG folder as an absolute path."""
    return Path(settings.dags_folder).absolute()


def spool_root(settings: Settings) -> Path:
    """The directory of this host's submissions as an absolute path."""
    return Path(settings.spool_dir).absolute()


def _check_dsn(dsn: str) -> None:
    """Only the shape. What is wrong is not quoted: it may be a part of the password."""
    scheme, _, rest = dsn.partition("://")
    hosts = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2].split(",")
    if scheme not in ("postgresql", "postgres") or not all(map(_HOST.fullmatch, hosts)):
        raise SettingsError(
            f"{PREFIX}POSTGRES_DSN is no Postgres address; write postgresql://user:password@host:5432/database, "
            "special characters of the password as %XX"
        )


def _hint(name: str) -> str:
    close = get_close_matches(name, Settings.__struct_fields__, n=1)
    return f"; did you mean {PREFIX}{close[0].upper()}?" if close else ""


def _sentence(problem: str, values: Mapping[str, str]) -> str:
    """`Expected `float` > 0.0 - at `$.sweep_s`` in the words of whoever set it."""
    expected, _, path = problem.removeprefix("Expected ").rpartition(" - at `$.")
    name = path.rstrip("`")
    if problem.startswith("Invalid enum value"):
        expected = " or ".join(get_args(get_type_hints(Settings)[name]))
    for type_, words in _WORDS.items():
        expected = expected.removesuffix(", got `str`").replace(f"`{type_}`", words)
    return f"{PREFIX}{name.upper()} is {values[name]!r}, but must be {expected}"


_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false"}
