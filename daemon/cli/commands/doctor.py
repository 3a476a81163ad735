"""`tidegate doctor`: what is wrong with the installation, and what to do."""

from typing import TYPE_CHECKING

import typer

from tidegate.daemon.cli.command import Json
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import read_settings, shown

if TYPE_CHECKING:
    from tidegate.daemon.read_model.system import System
    from tidegate.schemas.queries.db import Db
    from tidegate.schemas.queries.system_pages import SparkNeed

REMOTE = "Kafka and Spark, because --server asks a web process: call it without on the host of a daemon"
"""What is not looked at with `--server`, and how it is."""


def doctor(context: typer.Context, *, json: Json = False) -> None:
    """Say what is wrong with the installation, and what to do: daemons, servers, leases, partitions, losses, schema,
    DAG files, held DAGs, pools, dead letters, the newest entries of the audit log. The last line is the verdict.

    Without --server it also asks Kafka for its topics and the rights of its user, and the addresses of Spark that tasks
    need for a connection, from this host and within seconds. What it could not look at is on stderr.

    Exit code 1 if anything is wrong.
    """
    from tidegate.daemon.read_model.system import System, read_system
    from tidegate.schemas.queries import system_pages

    needs: list[SparkNeed] = []

    async def read(db: "Db") -> System:
        needs.extend(await system_pages.spark_needs(db))
        return await read_system(db)

    system, _ = shown(context, "/system", System, read)
    system, unexamined = _examined(context, system, needs)
    output.write_page(system, lambda: _print(system), json=json)
    for each in unexamined:
        output.say(f"not looked at: {each}")
    if system.problems:
        raise typer.Exit(1)


def _examined(context: typer.Context, system: "System", needs: "list[SparkNeed]") -> "tuple[System, list[str]]":
    """With what Kafka and Spark say, and what was not looked at."""
    settings = read_settings(context)
    if settings.server:
        return system, [REMOTE]
    import anyio

    from tidegate.daemon.examination.examine import examine, with_problems

    findings = anyio.run(examine, system, needs, settings)
    return with_problems(system, findings.problems), findings.unexamined


def _print(system: "System") -> None:
    for line in (*system.problems, system.verdict):
        output.write(line)
