"""Ids that a shell completes. Without a server there are none: a command line that is being typed has no place for an error."""

import contextlib
import os
import socket
import threading

import typer

from tidegate.schemas.error import FATAL

WITHIN_S = 0.3
DAG_IDS = "SELECT dag_id FROM dag WHERE starts_with(dag_id, $1) ORDER BY dag_id LIMIT 100"


def dag_ids(context: typer.Context, incomplete: str) -> list[str]:
    """The DAG ids that begin with a text, from the Postgres of the settings if it answers within `WITHIN_S`."""
    given = context.find_root().params.get("postgres_dsn") or os.environ.get("TIDEGATE_POSTGRES_DSN")
    if not given:
        return []
    import anyio

    try:
        return anyio.run(_read, given, DAG_IDS, incomplete) if finds_hosts(given, WITHIN_S) else []
    except FATAL:
        raise
    except Exception:  # noqa: BLE001 - a command names the error; a completion has no place for it
        return []


def finds_hosts(dsn: str, within_s: float) -> bool:
    """Whether the names of the servers are looked up in this time. Python does not wait for the thread when it ends."""
    search = threading.Thread(target=_look_up, args=(dsn,), daemon=True)
    search.start()
    search.join(within_s)
    return not search.is_alive()


def _look_up(dsn: str) -> None:
    from tidegate.daemon.postgres.address import servers

    with contextlib.suppress(OSError, ValueError):
        for server in servers(dsn):
            socket.getaddrinfo(server.host, server.port)


async def _read(dsn: str, sql: str, text: str) -> list[str]:
    import anyio

    from tidegate.daemon.postgres.primary import connect

    with anyio.fail_after(WITHIN_S):
        connection = await connect(dsn, timeout=WITHIN_S)
        try:
            return [id_ for (id_,) in await connection.fetch(sql, text)]
        finally:
            connection.terminate()
