"""Settings of the processes of a standalone: those of its environment, apart from the ones that standalone decides."""

from collections.abc import Collection, Mapping
from pathlib import Path

from tidegate.daemon.settings import PREFIX, Settings
from tidegate.schemas.kafka_security import KafkaSecurity

DECIDED = ("postgres_dsn", "kafka_servers", "spark_remote", "dags_folder", "spool_dir", "host", "topic_prefix")
"""Standalone gives its processes the addresses, the folders and the name of the host that it uses itself."""

OF_SHELLS = ("spark_master", "spark_clusters", "secrets_dir", "dag_env", "dag_reads")
"""What `tidegate check` and `tidegate tasks test` need in another shell to say what the daemon would do."""

OF_COMMANDS = ("cache", "server", "token")
OF_DAEMON = ("smtp_", "webhook_")
OF_WEB = ("web_", "login_", "oidc_", "proxy_", "editors")
"""Settings with these beginnings have secrets, or concern one process only: the other one does not get them."""

SECURING = tuple(f"kafka_{field}" for field in KafkaSecurity.__struct_fields__)
_PATHS = ("_file", "_dir")


def to_daemon(given: Settings) -> dict[str, str]:
    """The settings of the daemon that standalone does not decide."""
    return _without(given, OF_WEB)


def to_web(given: Settings) -> dict[str, str]:
    """The settings of the web page that standalone does not decide. A Postgres to read from belongs to a given one."""
    chosen = _without(given, OF_DAEMON)
    return chosen if given.postgres_dsn else {**chosen, "web_dsn": ""}


def to_clients_of_kafka(given: Settings) -> dict[str, str]:
    """How to log in to Kafka, and nothing else."""
    return {name: _text(name, getattr(given, name)) for name in SECURING}


def to_shells(given: Settings, chosen: Collection[str]) -> dict[str, str]:
    """The settings for commands in other shells that standalone does not decide."""
    return {name: _text(name, getattr(given, name)) for name in OF_SHELLS if name in chosen}


def chosen_in(environ: Mapping[str, str]) -> set[str]:
    """The settings that an environment has."""
    return {name for name in Settings.__struct_fields__ if f"{PREFIX}{name.upper()}" in environ}


def unused(given: Settings, decided: Mapping[str, str], chosen: Collection[str]) -> str:
    """A line with the settings that have another value in the environment than standalone uses; empty if there is none."""
    names = [name for name, value in decided.items() if name in chosen and getattr(given, name) != value]
    listed = ", ".join(f"{PREFIX}{name.upper()}" for name in names)
    return listed and f"not used, because standalone has its own: {listed}"


def _without(given: Settings, prefixes: tuple[str, ...]) -> dict[str, str]:
    names = (name for name in given.__struct_fields__ if name not in (*DECIDED, *OF_COMMANDS) and not name.startswith(prefixes))
    return {name: _text(name, getattr(given, name)) for name in names}


def _text(name: str, value: object) -> str:
    """A path means the same in the process, which works in a folder of its own."""
    text = str(value)
    return str(Path(text).absolute()) if text and name.endswith(_PATHS) and not text.startswith("~") else text
