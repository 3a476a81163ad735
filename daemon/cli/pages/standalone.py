"""The pages of `tidegate standalone`: its servers, and their logs."""

import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.daemon.spark.process import alive
from tidegate.daemon.standalone import record
from tidegate.daemon.standalone.jars import cache_of
from tidegate.daemon.standalone.record import Record, ServerRecord, ServerState

TITLES = ("SERVER", "STATE", "PID", "PORT", "SINCE", "RESTARTS", "LOG")
ENDED = "ended"


class ServerStatus(msgspec.Struct, frozen=True):
    """A server. Its state is `ended` if its standalone was killed, and it with it."""

    server: str
    state: str
    pid: int | None
    port: int | None
    since: datetime
    restarts: int
    log: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A standalone on the folder `data`. `ready`: all servers are ready. Without a `pid` none runs."""

    data: str
    ready: bool
    pid: int | None
    since: datetime | None
    web: str
    servers: list[ServerStatus]


def status_of(home: Path, known: Record | None) -> Status:
    """The state that the processes of a record have now."""
    if known is None:
        return Status(data=str(home), ready=False, pid=None, since=None, web="", servers=[])
    servers = [_server(name, server, kept=known.alive) for name, server in known.servers.items()]
    ready = known.alive and bool(known.settings) and all(server.state == ServerState.READY for server in servers)
    pid = known.process.pid if known.process is not None and known.alive else None
    return Status(data=str(home), ready=ready, pid=pid, since=known.since, web=known.web, servers=servers)


def _server(name: str, server: ServerRecord, *, kept: bool) -> ServerStatus:
    pid = server.process.pid if server.process is not None and alive(server.process) else None
    state = server.state if kept or pid is not None else ENDED
    return ServerStatus(name, state, pid, server.port or None, server.since, server.restarts, server.log)


def print_status(status: Status) -> None:
    if status.pid is None:
        output.say(record.no_standalone(Path(status.data), cache_of(os.environ)))
    else:
        page = f"{status.web}; `tidegate standalone link` prints a link that logs in" if status.web else ""
        output.facts((("process", status.pid), ("since", status.since), ("web page", page), ("data", status.data)))
        output.write()
    if status.servers:
        output.table(TITLES, map(msgspec.structs.astuple, status.servers), empty="")


def print_lines(lines: Iterable[tuple[str, str]], width: int) -> None:
    """The lines of logs, each after the name of its server."""
    for name, line in lines:
        output.write(f"{name:{width}} | {line}")
