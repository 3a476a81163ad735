"""Settings: `TIDEGATE_*` from the environment into one frozen value."""

import os
import re
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Literal, get_type_hints

import msgspec
from msgspec import Meta

from tidegate.daemon.dag_access import readable_paths, variable_names
from tidegate.daemon.own_variables import own_variables
from tidegate.daemon.postgres.address import is_postgres_address
from tidegate.daemon.setting_text import hint, sentence
from tidegate.schemas.cluster import Clusters, read_clusters
from tidegate.schemas.error import RequestError, TidegateError
from tidegate.schemas.kafka_security import DEFAULT_MECHANISM, KafkaSecurity, Mechanism, Protocol
from tidegate.schemas.read_plan import RUN_EVENTS
from tidegate.schemas.wire.event import Kind

PREFIX = "TIDEGATE_"

SERVERS = {"postgres_dsn": "postgresql://user@localhost:5432/tidegate", "kafka_servers": "localhost:9092"}
"""The settings without a default, each with an example."""

FOLDERS = ("dags_folder", "secrets_dir", "cache")
"""Without a name it would be the working folder: an empty one is not set."""

DEFAULT_WEB_PORT = 8780

_ADDRESS = re.compile(r"(?:(?P<name>[\w.-]+)|\[(?P<ipv6>[0-9A-Fa-f:.]+)\]):(?P<port>[0-9]{1,5})", re.ASCII)

MOST_PORT = 65_535

MOST_S, MOST_DAYS, MOST_COUNT = 1e8, 36_500, 2**31 - 1
"""The largest times and numbers that Postgres, timers and the kernel accept wherever a setting reaches them."""


class SettingsError(TidegateError):
    """A setting is missing, unknown or invalid; the message names it."""


class UnknownSettingError(SettingsError):
    """`names` are variables with the prefix of settings that are none. The message is about the first."""

    names: frozenset[str] = frozenset()


def _text(description: str) -> Meta:
    return Meta(description=description)


def _seconds(description: str) -> Meta:
    return Meta(gt=0, le=MOST_S, description=description, extra={"unit": "seconds"})


def _count(description: str, unit: str = "", least: int = 1) -> Meta:
    return Meta(ge=least, le=MOST_DAYS if unit == "days" else MOST_COUNT, description=description, extra={"unit": unit})


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting, with its type, limits, description, unit and default. `daemon/docs/settings.md` is generated from it."""

    postgres_dsn: Annotated[
        str, _text("Address of Postgres. Several servers are separated by commas: see [standby](standby.md).")
    ]
    kafka_servers: Annotated[str, _text("Bootstrap servers of Kafka, separated by commas.")]
    dags_folder: Annotated[str, _text("Folder with the DAG files.")] = "dags"
    spool_dir: Annotated[
        str,
        _text(
            "Folder for the logs and outcomes of tasks that run on this host, and for the commit receipts of its daemons."
            " An absolute path, the same for all daemons of an installation on the host."
        ),
    ] = "~/.local/state/tidegate/spool"
    secrets_dir: Annotated[
        str,
        _text(
            "Folder with the secrets of tasks on this host: a file per secret, named like it. Credentials of the daemon's unit"
            " (`LoadCredential=`) come first."
        ),
    ] = "~/.config/tidegate/secrets"
    spool_days: Annotated[int, _count("How long logs and outcomes of ended attempts are kept.", "days")] = 14
    cache: Annotated[str, _text("Folder for the jars that `tidegate standalone` downloads.")] = "~/.cache/tidegate"
    host: Annotated[
        str,
        _text(
            "Name of this host. A daemon observes and kills the runner processes of its own host only. Default: the host name."
            " The id of the spool is added to it: `NAME/ID`."
        ),
    ] = msgspec.field(default_factory=socket.gethostname)

    kafka_security_protocol: Annotated[
        Protocol,
        _text("`PLAINTEXT`, `SSL` (TLS), `SASL_SSL` (TLS and a login) or `SASL_PLAINTEXT` (a login without TLS)."),
    ] = "PLAINTEXT"
    kafka_sasl_mechanism: Annotated[
        Mechanism, _text("Mechanism of the login: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`.")
    ] = DEFAULT_MECHANISM
    kafka_sasl_username: Annotated[str, _text("User name of the login. `OAUTHBEARER` needs none.")] = ""
    kafka_sasl_password: Annotated[str, _text("Password of the login, or the token for `OAUTHBEARER`. Better in a file.")] = ""
    kafka_sasl_password_file: Annotated[
        str,
        _text("File with this password or token. A new client replaces a refused one and reads it again: no restart is needed."),
    ] = ""
    kafka_ssl_ca_file: Annotated[
        str, _text("PEM file of the CA of the brokers. Empty: the CAs of this host. Host names are always verified.")
    ] = ""
    kafka_ssl_certificate_file: Annotated[
        str, _text("PEM file of the certificate of the client, if brokers require one. Renewed ones need no restart.")
    ] = ""
    kafka_ssl_key_file: Annotated[str, _text("PEM file of its key. Empty: the key is in the file of the certificate.")] = ""
    kafka_ssl_key_password: Annotated[str, _text("Password of an encrypted key. Better in a file.")] = ""
    kafka_ssl_key_password_file: Annotated[str, _text("File with this password.")] = ""

    topic_prefix: Annotated[str, _text("Prefix of the names of all topics.")] = "tidegate."
    topic_partitions: Annotated[int, _count("Partitions of a topic that `tidegate topics create` creates.", "partitions")] = 12
    topic_replication: Annotated[int, _count("Replicas of a topic that `tidegate topics create` creates.", "replicas")] = 1
    topic_min_in_sync: Annotated[
        int,
        _count(
            "`min.insync.replicas` of a topic that `tidegate topics create` creates. "
            "0: two if there are at least three replicas, otherwise the default of the brokers.",
            "replicas",
            least=0,
        ),
    ] = 0

    lease_ttl_s: Annotated[
        float, _seconds("Time without a renewal after which other daemons take over the leases of a daemon.")
    ] = 10.0
    lease_renew_s: Annotated[float, _seconds("Interval between two renewals of the leases of a daemon.")] = 2.0
    sweep_s: Annotated[float, _seconds("Interval at which each duty polls for work that no wake-up announced.")] = 1.0
    batch_records: Annotated[int, _count("Largest number of Kafka records in one transaction.", "records")] = 1000
    run_events: Annotated[
        int, _count("Largest number of events that one run consumes. The rest stays pending for the next run.", "events")
    ] = RUN_EVENTS
    pool_connections: Annotated[int, _count("Connections of a daemon to Postgres.", "connections")] = 8
    dedupe_days: Annotated[
        int,
        _count(
            "How long the ids of events are remembered to recognise duplicates. Keep it longer than the topics retain records.",
            "days",
        ),
    ] = 14
    ledger_days: Annotated[int, _count("How long a month of the event ledger is kept after the month has ended.", "days")] = 90
    dead_letter_days: Annotated[
        int, _count("How long dead letters are kept: open ones after their arrival, others after they were closed.", "days")
    ] = 90
    dead_letter_mb: Annotated[
        int, _count("Most that dead letters take in Postgres. The oldest are deleted first, closed ones before open ones.", "MiB")
    ] = 1024
    unknown_datasets: Annotated[
        Literal["record", "reject"],
        _text(
            "Treatment of an update of a dataset that no DAG file names. "
            "`record` keeps the event for later consumers; `reject` turns it into a dead letter."
        ),
    ] = "record"

    new_dags_paused: Annotated[
        bool, _text("New DAGs begin paused, as with `Dag(paused=True)`, and start when a user unpauses them. Equal on all hosts.")
    ] = False
    parse_wall_s: Annotated[float, _seconds("Time limit for parsing one DAG file.")] = 30.0
    parse_cpu_s: Annotated[int, _count("CPU time limit for parsing one DAG file.", "seconds")] = 20
    parse_memory_mb: Annotated[int, _count("Memory limit for parsing one DAG file.", "MiB")] = 512
    parse_output_mb: Annotated[int, _count("Size limit of the serialised DAGs of one file.", "MiB")] = 4
    dag_env: Annotated[
        str,
        _text(
            "Environment variables that DAG files and tasks may read, separated by commas, such as `STAGE,REGION`. Settings never"
            " are. Give them the same values on all hosts. A changed value counts from the next change of a file on."
        ),
    ] = ""
    dag_reads: Annotated[
        str, _text("Files and folders outside the DAG folder that DAG files may read, as absolute paths separated by commas.")
    ] = ""
    dags_scan_s: Annotated[float, _seconds("Interval of full scans of the DAG folder, which complement the file watcher.")] = 30.0

    spark_remote: Annotated[str, _text("Address of the Spark Connect server.")] = "sc://127.0.0.1:15002"
    spark_master: Annotated[str, _text("Master for `spark-submit`.")] = "local[2]"
    spark_clusters: Annotated[
        str,
        _text(
            "Further Spark clusters, which tasks name by `cluster=`, as JSON: each with a `master` for `spark-submit`, a `remote`"
            ' of Spark Connect, or both, like `{"nightly": {"master": "spark://m1:7077", "remote": "sc://m1:15002"}}`.'
        ),
    ] = "{}"
    dispatch_concurrency: Annotated[int, _count("Submissions that a daemon makes at the same time.", "submissions")] = 8
    parallelism: Annotated[
        int, _count("Largest number of tasks at work in the whole installation. 0: no limit.", "tasks", least=0)
    ] = 0
    fair_after_s: Annotated[
        float, _seconds("Wait for slots after which a task starves: of its pool every fourth admission is the oldest such task.")
    ] = 60.0
    runner_heartbeat_s: Annotated[float, _seconds("Interval of the heartbeats of a runner process.")] = 5.0
    runner_silent_s: Annotated[
        float,
        _seconds(
            "Time without a heartbeat after which an attempt is lost. A task whose heartbeats no daemon records ends after"
            " three quarters of it. Equal on all hosts."
        ),
    ] = 900.0
    queued_timeout_s: Annotated[
        float,
        _seconds("Time after which an attempt that could not be submitted is queued again. The third time, it has failed."),
    ] = 600.0

    smtp_host: Annotated[str, _text("Mail server. Without one, mail notifications fail and say so.")] = ""
    smtp_port: Annotated[
        int, Meta(ge=1, le=65_535, description="Port of the mail server. On port 465 the connection uses TLS from the start.")
    ] = 587
    smtp_from: Annotated[str, _text("Sender of mails. Empty: `tidegate@` and the value of `TIDEGATE_HOST`.")] = ""
    smtp_starttls: Annotated[bool, _text("Require STARTTLS. A mail server without it gets no mail.")] = True
    smtp_user: Annotated[str, _text("User name for the mail server. Empty: no login.")] = ""
    smtp_password: Annotated[str, _text("Password for the mail server.")] = ""
    webhook_secret: Annotated[str, _text("Secret that signs webhooks. Empty: webhooks are not signed.")] = ""
    public_url: Annotated[
        str,
        Meta(
            max_length=2048,
            pattern=r"^(https?://[\x21-\x7e]+)?\Z",
            description="Address of `tidegate web` for people, such as `https://tidegate.example.org`: notifications link to it.",
        ),
    ] = ""
    notify_tries: Annotated[int, _count("Attempts to deliver one notification.", "attempts")] = 8
    notify_retry_s: Annotated[
        float, _seconds("Delay before the second attempt. It doubles with each attempt, to at most 12.5 minutes.")
    ] = 5.0
    notify_timeout_s: Annotated[float, _seconds("Time limit of one attempt to deliver a mail or a webhook.")] = 10.0
    callback_timeout_s: Annotated[float, _seconds("Time limit of a callback function.")] = 300.0

    metrics_address: Annotated[
        str,
        _text(
            "Address and port at which a daemon serves its [metrics](metrics.md), such as `127.0.0.1:9464`; port 0: a free one."
            " Each daemon of a host needs a port of its own. Empty: none."
        ),
    ] = ""
    web_metrics_address: Annotated[str, _text("The same for `tidegate web`, which needs another port than daemons.")] = ""
    server: Annotated[str, _text("Address of a `tidegate web` that commands call instead of Postgres, with a token.")] = ""
    token: Annotated[str, _text("The token for it; `tidegate tokens create` makes one.")] = ""
    web_host: Annotated[str, _text("Address that `tidegate web` listens on.")] = "127.0.0.1"
    web_port: Annotated[
        int, Meta(ge=0, le=65_535, description="Port that `tidegate web` listens on. 0: a free one, which it prints.")
    ] = DEFAULT_WEB_PORT
    web_hosts: Annotated[
        str,
        _text(
            "Host names that `tidegate web` answers for, without a scheme, separated by commas."
            " `localhost` and the value of `TIDEGATE_WEB_HOST` are always among them."
        ),
    ] = ""
    web_dsn: Annotated[
        str,
        _text("Address of a Postgres that `tidegate web` reads from; of several, a standby. Empty: `TIDEGATE_POSTGRES_DSN`."),
    ] = ""
    web_connections: Annotated[int, _count("Connections of `tidegate web` to Postgres for reading.", "connections")] = 8
    web_requests_per_s: Annotated[
        float,
        Meta(
            ge=0, le=MOST_COUNT, description="Requests a second that a user may send to one web process, for long. 0: no limit."
        ),
    ] = 50.0
    web_streams: Annotated[int, _count("Streams of changes that a caller may have open at one web process.", "streams")] = 50
    spark_ui_url: Annotated[str, _text("Template of [links](web.md#links) from attempts to a Spark UI or history server.")] = ""
    producer_url: Annotated[str, _text("Template of links from events of other programs to their producers.")] = ""
    login_roles: Annotated[
        str,
        _text(
            "Roles of users that OpenID Connect or a proxy knows, by group, as JSON like"
            ' `{"platform": "admin", "finance": {"role": "editor", "dags": ["finance_*"]}, "*": "viewer"}`. `*` is every user.'
        ),
    ] = "{}"
    oidc_issuer: Annotated[str, _text("Provider of OpenID Connect, as it calls itself. Empty: no such [login](login.md).")] = ""
    oidc_client_id: Annotated[str, _text("Name of Tidegate at this provider.")] = ""
    oidc_client_secret: Annotated[str, _text("Secret of Tidegate at this provider. Better in a file.")] = ""
    oidc_client_secret_file: Annotated[str, _text("File with this secret, read at each login.")] = ""
    oidc_scopes: Annotated[str, _text("What a login asks the provider for, between spaces.")] = "openid profile email"
    oidc_username_claim: Annotated[str, _text("Claim with the name of the user.")] = "preferred_username"
    oidc_groups_claim: Annotated[str, _text("Claim with the groups of the user, or a path such as `realm_access.roles`.")] = (
        "groups"
    )
    proxy_addresses: Annotated[
        str, _text("Addresses and networks of proxies that may name the user, separated by commas. Empty: none may.")
    ] = ""
    proxy_user_header: Annotated[str, _text("Header in which such a proxy names the user.")] = ""
    proxy_groups_header: Annotated[str, _text("Header with the groups of the user, separated by commas.")] = ""
    editors: Annotated[
        str,
        _text(
            "Who may create and change backfills of which DAGs, as JSON: patterns of DAG ids with lists of users, like"
            ' `{"finance_*": ["anna"]}`. Of a DAG that no pattern matches any user may.'
        ),
    ] = "{}"
    log_format: Annotated[
        str, _text("`console`, `json`, or `auto`: `console` if the log goes to a terminal, otherwise `json`.")
    ] = "auto"
    debug: Annotated[bool, _text("Log tracebacks of unexpected errors.")] = False

    @property
    def kafka_security(self) -> KafkaSecurity:
        """The settings `kafka_*` of all clients of Kafka. Raises RequestError for settings that contradict each other."""
        return KafkaSecurity(**{field: getattr(self, f"kafka_{field}") for field in KafkaSecurity.__struct_fields__})

    @property
    def clusters(self) -> Clusters:
        """The Spark clusters that tasks may name. Raises RequestError for a setting that cannot be read."""
        return read_clusters(self.spark_clusters)

    def topic(self, kind: Kind) -> str:
        """The topic that carries a kind of event."""
        return f"{self.topic_prefix}{kind}"


def read(environ: Mapping[str, str], *, needs: Collection[str] = tuple(SERVERS)) -> Settings:
    """`needs` are the servers that will be used; the others may be left unset, and are empty then.

    Raises SettingsError naming the setting, and what to do about it.
    """
    values = {name: value for name, value in own_variables(environ, PREFIX).items() if value or name not in FOLDERS}
    if unknown := [name for name in values if name not in Settings.__struct_fields__]:
        error = UnknownSettingError(
            f"{PREFIX}{unknown[0].upper()} is not a setting{hint(PREFIX, unknown[0], Settings.__struct_fields__)}"
        )
        error.names = frozenset(f"{PREFIX}{name.upper()}" for name in unknown)
        raise error
    for name in needs:
        if not values.get(name):
            raise SettingsError(f"{PREFIX}{name.upper()} is not set; set it to something like {SERVERS[name]}")
    for name in ("postgres_dsn", "web_dsn"):
        if values.get(name):
            _check_dsn(name, values[name])
    values = {**dict.fromkeys(SERVERS, ""), **values}
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(sentence(PREFIX, str(error), values, get_type_hints(Settings))) from error
    _check_parts(settings)
    return settings


def _check_parts(settings: Settings) -> None:
    try:
        settings.kafka_security, settings.clusters  # noqa: B018 - they are checked when they are made
        variable_names(settings.dag_env), readable_paths(settings.dag_reads)
        for name in ("metrics_address", "web_metrics_address"):
            host_and_port(name, getattr(settings, name))
    except RequestError as error:
        raise SettingsError(str(error)) from error
    for often, times, limit in (("lease_renew_s", 2.5, "lease_ttl_s"), ("runner_heartbeat_s", 4, "runner_silent_s")):
        if getattr(settings, often) > (most := getattr(settings, limit) / times):
            raise SettingsError(f"{PREFIX}{often.upper()} must be at most {most:g} s with this {PREFIX}{limit.upper()}")


def host_and_port(name: str, address: str) -> tuple[str, int] | None:
    """`127.0.0.1:9464` or `[::1]:9464` in parts; None for an empty address. Raises SettingsError, which names the setting."""
    if not address:
        return None
    if (found := _ADDRESS.fullmatch(address)) is None or int(found["port"]) > MOST_PORT:
        raise SettingsError(f"{PREFIX}{name.upper()} is {address!r}; write an address and a port, like 127.0.0.1:9464")
    return found["name"] or found["ipv6"], int(found["port"])


def environment(values: Mapping[str, str]) -> dict[str, str]:
    """The settings with these values as environment variables."""
    return {f"{PREFIX}{name.upper()}": value for name, value in values.items()}


def dags_root(settings: Settings) -> Path:
    """The DAG folder as an absolute path."""
    return Path(settings.dags_folder).absolute()


def spool_root(settings: Settings) -> Path:
    """The directory of this host's submissions. Raises SettingsError for a relative path.

    Two daemons with different working directories would not see each other's submissions.
    """
    path = Path(os.path.expanduser(settings.spool_dir))
    if not path.is_absolute():
        raise SettingsError(f"{PREFIX}SPOOL_DIR is {settings.spool_dir!r}, but must be an absolute path")
    return path


def _check_dsn(name: str, dsn: str) -> None:
    """Only the shape. What is wrong is not quoted: it may be a part of the password."""
    if not is_postgres_address(dsn):
        raise SettingsError(
            f"{PREFIX}{name.upper()} is no Postgres address; write postgresql://user:password@host:5432/database, "
            "special characters of the password as %XX"
        )
