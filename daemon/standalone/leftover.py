"""Ends what a standalone that was killed has left."""

import signal
from pathlib import Path

import anyio

from tidegate.daemon.spark.process import alive, end_all, send, until_gone, with_processes
from tidegate.daemon.spark.spool import spools
from tidegate.daemon.standalone.record import Record, Say

GRACE_S = 10.0
RUNNER_GRACE_S = 2.0


async def end_servers(record: Record, say: Say) -> None:
    """Return when the servers of the record have ended. They got their death signals when their standalone died.

    A server that does not end within `GRACE_S` is killed.
    """
    left = [(server.name, server.process) for server in record.servers.values() if server.process and alive(server.process)]
    for name, process in left:
        say(f"{name} (process {process.pid}) is left of a standalone that was killed: waiting for its end")
    with anyio.move_on_after(GRACE_S):
        for _, process in left:
            await until_gone(process)
    for _, process in left:
        if send(process, signal.SIGKILL):
            await until_gone(process)


def end_runners(spool_dir: Path) -> int:
    """End all runners, which survive their daemon by design. Their attempts count as killed. The number of their processes.

    There may be many thousands of spools, and few of them with processes.
    """
    left = {spool.submission_id for spool in spools(spool_dir)} & with_processes()
    return sum(end_all(submission_id, RUNNER_GRACE_S) for submission_id in left)
