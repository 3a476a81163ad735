"""`tidegate tasks logs`: from the spool of this host, or from the server of `--server`."""

import time
from base64 import b64decode
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import typer

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import at, read_settings, remote, with_database
from tidegate.daemon.read_model.lookup import find_run

if TYPE_CHECKING:
    from tidegate.daemon.cli.remote import Remote
    from tidegate.daemon.postgres.database import Database
    from tidegate.daemon.read_model.logs import Log, LogRequest

POLL_S = 1.0


def print_log(context: typer.Context, wanted: "LogRequest", *, follow: bool, json: bool) -> None:
    """The log of a try. Raises RequestError without one."""
    server = remote(context)
    if server is None:
        _print_of_this_host(context, wanted, follow=follow, json=json)
    elif json:
        output.write_json(_whole(server, wanted))
    else:
        out = output.ByteWriter()
        for part in parts_of(server, wanted, follow=follow):
            out.write(_bytes(part))


def _print_of_this_host(context: typer.Context, wanted: "LogRequest", *, follow: bool, json: bool) -> None:
    from tidegate.daemon.cli.pages.logs import write
    from tidegate.daemon.read_model.logs import LogReader

    settings = read_settings(context, "postgres_dsn")

    async def read(database: "Database") -> None:
        run = await database.run(find_run, wanted.dag_id, wanted.run_id)
        reader = LogReader(settings, database, wanted._replace(run_id=run.run_id))
        if json:
            output.write_json(await reader.document())
        else:
            await write(reader, follow=follow)

    with_database(context, read)


def _whole(server: "Remote", wanted: "LogRequest") -> "Log":
    parts = list(parts_of(server, wanted, follow=False))
    content = b"".join(map(_bytes, parts)).decode(errors="replace")
    return msgspec.structs.replace(parts[-1], offset=0, content=content, content_encoding=msgspec.UNSET)


def parts_of(server: "Remote", wanted: "LogRequest", *, follow: bool) -> Iterator["Log"]:
    """The log from its beginning to what is there now, or to its end. It stays that of the try that it began with."""
    from tidegate.daemon.read_model.logs import Log

    offset, read = 0, server.read
    while True:
        path = at("dags", wanted.dag_id, "runs", wanted.run_id, "tasks", wanted.task_id, "log")
        params = {"try_number": wanted.try_number, "offset": offset, "encoding": "base64", "follow": follow}
        part = read(path, Log, params)
        yield part
        if part.complete or not (part.content or follow):
            return
        wanted, offset = wanted._replace(run_id=part.run_id, try_number=part.try_number), part.next_offset
        read = server.patient if follow else server.read
        if not part.content:
            time.sleep(POLL_S)


def _bytes(part: "Log") -> bytes:
    return b64decode(part.content)
