"""A standalone in the background: its start, its end, and what is known of it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from tidegate.daemon.spark.process import Identity, identify, send, until_gone
from tidegate.daemon.standalone import record
from tidegate.daemon.standalone.jars import cache_of
from tidegate.daemon.standalone.leftover import end_runners, end_servers
from tidegate.daemon.standalone.log_file import LogFile, own_log
from tidegate.daemon.standalone.record import Record, Say
from tidegate.daemon.standalone.server import exclusive
from tidegate.schemas.error import RequestError

COMMAND = (sys.executable, "-P", "-m", "tidegate.daemon.cli", "standalone")
POLL_S = 0.1
STOP_S = 120.0


def start(home: Path, options: Sequence[str], env: Mapping[str, str], show: Say) -> Record:
    """Start a standalone in a session of its own, and show its output until it is ready.

    Raises RequestError when it ends before that. An interrupt stops it.
    """
    process = _spawn(home, options, env)
    try:
        return _until_ready(home, process, LogFile(own_log(home)), show)
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _spawn(home: Path, options: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the process. Its output contains the login link, so the log is truncated and readable by its user alone."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with own_log(home).open("ab") as output:
            os.fchmod(output.fileno(), 0o600)
            output.truncate(0)
            return subprocess.Popen(  # noqa: S603 - it is this program
                [*COMMAND, *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(env),
                start_new_session=True,
            )
    except OSError as error:
        raise RequestError(f"{home} cannot be used: {error.strerror}; choose another --data") from error


def _until_ready(home: Path, process: subprocess.Popen[bytes], log: LogFile, show: Say) -> Record:
    while True:
        ended, known = process.poll(), record.read(home)
        for line in log.new():
            show(line)
        if ended is not None:
            raise RequestError(f"standalone ended with exit code {ended}; its output is in {own_log(home)}")
        if known is not None and known.settings and known.process == identify(process.pid):
            return known
        time.sleep(POLL_S)


def runs_already(home: Path) -> bool:
    """Whether a standalone runs on this folder. Returns when it is ready. Raises RequestError when it ends before that."""
    known = record.read(home)
    if known is None or not known.alive:
        return False
    while known is not None and known.alive:
        if known.settings:
            return True
        time.sleep(POLL_S)
        known = record.read(home)
    raise RequestError(f"the standalone that was starting on {home} has ended; `tidegate standalone up -d` starts another one")


def stop(home: Path, say: Say) -> bool:
    """End the standalone of this folder, or what a killed one or a failed start has left. False when there is none.

    Raises ServerError when a standalone is starting there that the record does not name yet: what is left is then its own.
    """
    if not home.is_dir():
        return False
    known = record.read(home)
    if known is not None:
        say(f"stopping the servers on {home}")
        _end(known)
    with exclusive(home, "try `tidegate standalone down` again in a few seconds"):
        if (left := record.read(home)) is not None:
            anyio.run(end_servers, left, say)
        runners = end_runners(home / "spool")
        record.remove(home)
    return known is not None or runners > 0


def _end(known: Record) -> None:
    """End the process of the record, if it runs."""
    if known.process is None or not send(known.process, signal.SIGTERM):
        return
    if not anyio.run(_is_gone, known.process):
        raise RequestError(f"process {known.process.pid} did not end within {STOP_S:g} s; `kill -9 {known.process.pid}` ends it")


async def _is_gone(process: Identity) -> bool:
    with anyio.move_on_after(STOP_S):
        await until_gone(process)
        return True
    return False


def running(home: Path) -> Record:
    """The record of the standalone on this folder. Raises RequestError when none runs there, or it is not ready yet."""
    known = record.read(home)
    if known is None or not known.alive:
        raise RequestError(record.no_standalone(home, cache_of(os.environ)))
    if not known.settings:
        raise RequestError(f"the standalone on {home} is starting; `tidegate standalone status` shows how far it is")
    return known
