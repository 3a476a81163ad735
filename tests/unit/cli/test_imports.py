"""What the command line imports: most of the time of a short command is spent on that."""

import os
import subprocess
import sys

import pytest

ONLY_DAEMONS = {"aiokafka", "croniter", "httpx", "jinja2", "jsonschema", "pyspark", "rich", "structlog", "uvloop", "watchfiles"}
ONLY_SERVERS = {"anyio", "asyncio", "asyncpg", "pydantic", "tidegate.schemas.queries", "tidegate.handlers"}
"""Typer validates values of options by pydantic."""

SCRIPT = """
import sys
from tidegate.daemon.cli.app import run
code = run(sys.argv[1:])
print("imported", code, *sys.modules)
"""


def imported(*args: str, **environ: str) -> tuple[str, set[str]]:
    """The exit code of a command, and the modules that it has imported."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")} | environ
    ended = subprocess.run([sys.executable, "-c", SCRIPT, *args], capture_output=True, text=True, check=True, env=env)
    code, *modules = ended.stdout.rpartition("imported ")[2].split()
    return code, set(modules)


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["runs", "--help"]], ids=" ".join)
def test_help_imports_no_client_of_a_server(args: list[str]) -> None:
    code, modules = imported(*args)

    assert code == "0"
    unwanted = ONLY_DAEMONS if args[0] == "runs" else ONLY_DAEMONS | ONLY_SERVERS
    assert unwanted & modules == set()


def test_completion_imports_no_client_of_a_server() -> None:
    typed = {"_TIDEGATE_COMPLETE": "complete_bash", "COMP_WORDS": "tidegate dag", "COMP_CWORD": "1"}

    code, modules = imported(**typed)

    assert code == "0"
    assert (ONLY_DAEMONS | ONLY_SERVERS) & modules <= {"pydantic"}


@pytest.mark.parametrize("noun", ["dags", "runs", "pools", "datasets", "deadletters", "backfills"])
def test_a_list_imports_the_client_of_postgres_alone(noun: str) -> None:
    code, modules = imported(noun, "list", TIDEGATE_POSTGRES_DSN="postgresql://127.0.0.1:1/none")

    assert code == "3"
    assert "asyncpg" in modules
    assert ONLY_DAEMONS & modules == set()


@pytest.mark.parametrize("server", ["daemon", "web"])
def test_a_server_imports_nothing_for_a_terminal_and_the_clients_of_mail_and_http_for_a_notification_alone(server: str) -> None:
    environ = {"POSTGRES_DSN": "postgresql://127.0.0.1:1/none", "KAFKA_SERVERS": "127.0.0.1:1", "LOG_FORMAT": "none"}

    code, modules = imported(server, **{f"TIDEGATE_{name}": value for name, value in environ.items()})

    assert code == "2"
    assert "structlog" in modules
    assert {"httpx", "aiosmtplib", "rich"} & modules == set()
