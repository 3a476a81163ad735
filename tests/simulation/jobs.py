"""Schedules in processes of their own, each on a server of its own: on one server they are decided one after the other."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import anyio
import anyio.abc
import msgspec
import psutil
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.simulation.faults import FAULTS
from tests.simulation.prepare import prepare
from tests.simulation.progress import tell_progress
from tests.simulation.verdict import Verdict
from tidegate.daemon.standalone.postgres import DATABASE, SUPERUSER, Postgres
from tidegate.daemon.standalone.process import descendants

PATIENCE_S = 240

LONGEST = 1 << 26
"""Bytes of what a process tells at once, at most."""

LONGEST_PATH = 85
"""Of the folder of a socket: with its name it has 107 characters at most."""

INTERRUPTED = 130
"""The exit code after ctrl-c."""

STEADY = {**os.environ, "PYTHONHASHSEED": "0"}
"""In another order of sets a seed would be another schedule."""


async def run(chosen: Namespace) -> int:
    """The exit code: 1 if something was broken or a fault not noticed, 2 if schedules failed by themselves, 130 after ctrl-c."""
    alone = chosen.seed is not None or chosen.kept
    async with AsyncExitStack() as stack:
        dsns = [await stack.enter_async_context(_server(number)) for number in range(1 if alone else chosen.jobs)]
        if alone:
            command = _command(dsns[0], *sys.argv[1:])
            return (await anyio.run_process(command, stdout=None, stderr=None, env=STEADY, check=False)).returncode
        return await (_try_faults if chosen.faults else _judge)(chosen, dsns)


class Near(Postgres):
    """Reached by a socket that costs less than TCP, on one core with the process that plays: one of them waits for the other."""

    settings: ClassVar[Mapping[str, str]] = {
        **Postgres.settings,
        "unix_socket_directories": ".",
        # What a server tells of itself for people, which costs something with each statement.
        "track_counts": "off",
        "update_process_title": "off",
        "track_activity_query_size": "100",
    }

    @property
    def near(self) -> str:
        """The dsn of this socket, which is in the folder of the data; that of TCP where its path is too long for a socket."""
        is_long = len(str(self._data)) > LONGEST_PATH
        return self.dsn if is_long else f"postgresql://{SUPERUSER}@/{DATABASE}?host={self._data}&port={self.port}"

    def stay_on(self, core: int) -> None:
        """Connections that begin later do, too; `Server` follows them."""
        os.sched_setaffinity(self.pid, {core})

    async def stop(self) -> None:
        """A program that was killed in a schedule has left processes that wait, stopped: they end only when they go on."""
        for process in descendants(self.pid):
            with suppress(psutil.NoSuchProcess):
                process.resume()
        await super().stop()


@asynccontextmanager
async def _server(number: int) -> AsyncIterator[str]:
    home = Path(tempfile.mkdtemp(prefix="simulation-"))
    home.chmod(0o755)
    cores = sorted(os.sched_getaffinity(0))
    try:
        async with Near(home, fsync=False) as server:
            server.stay_on(cores[number % len(cores)])
            await prepare(server.dsn)
            yield server.near
    finally:
        shutil.rmtree(home)


def _command(dsn: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "tests.simulation", *options, "--dsn", dsn]


def _many(base: int, schedules: int, fault: str) -> list[str]:
    return ["--base", f"{base}", "--schedules", f"{schedules}", *(["--fault", fault] if fault else []), "--json"]


# Many schedules -------------------------------------------------------------------------------------------------------


async def _judge(chosen: Namespace, dsns: Sequence[str]) -> int:
    run = Run(chosen)
    async with anyio.create_task_group() as tg:
        tg.start_soon(run.hear_interrupts)
        tg.start_soon(tell_progress, run)
        await run.play(dsns)
        tg.cancel_scope.cancel()
    return run.end()


def _limits(chosen: Namespace) -> list[str]:
    limits = ["--seconds", f"{chosen.seconds}", "--lines", f"{chosen.lines}", *(["--first"] if chosen.first else [])]
    return limits + (["--group", chosen.group] if chosen.group else [])


class Run:
    """What the processes have told so far."""

    def __init__(self, chosen: Namespace) -> None:
        self.chosen = chosen
        self.verdict = Verdict()
        self.interrupted = False
        self._failed = 0
        self._began = time.monotonic()
        self._processes: list[anyio.abc.Process] = []
        self._scope = anyio.CancelScope()

    async def play(self, dsns: Sequence[str]) -> None:
        """On these servers, each its share."""
        chosen = self.chosen
        with self._scope:
            async with anyio.create_task_group() as tg:
                for dsn, seeds in zip(dsns, shares(chosen.base, chosen.schedules, len(dsns)), strict=True):
                    tg.start_soon(
                        self._play_share, _command(dsn, *_many(seeds.start, len(seeds), chosen.fault), *_limits(chosen))
                    )

    async def _play_share(self, command: Sequence[str]) -> None:
        """What a process says on its way to its end is its own. Ctrl-c on a terminal reaches this process alone."""
        broken = False
        async with await anyio.open_process(command, stderr=None, env=STEADY, start_new_session=True) as process:
            self._processes.append(process)
            if self.interrupted:
                self._stop()
            assert process.stdout is not None
            told = BufferedByteReceiveStream(process.stdout)
            with suppress(anyio.IncompleteRead):
                while True:
                    self._hear(part := msgspec.json.decode(await told.receive_until(b"\n", LONGEST), type=Verdict))
                    broken = broken or bool(part.broken)
            self._failed += has_failed(await process.wait(), broken=broken, interrupted=self.interrupted)

    def _hear(self, part: Verdict) -> None:
        self.verdict.join(part)
        self.verdict.seconds = time.monotonic() - self._began
        if part.sentences and not self.chosen.json:
            sys.stdout.write("\n".join([*part.sentences, ""]))
            sys.stdout.flush()
        if self.chosen.first and self.verdict.broken:
            self._stop()

    async def hear_interrupts(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                self.interrupt()

    def interrupt(self) -> None:
        """The second one ends the processes as they are: one of them may hang."""
        if self.interrupted:
            self._scope.cancel()
        self.interrupted = True
        self._stop()

    def _stop(self) -> None:
        """Each process plays its schedule to the end, and tells of it. It is told once: a second signal would end it."""
        while self._processes:
            process = self._processes.pop()
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """The exit code, after the verdict."""
        self.verdict.write(as_json=self.chosen.json)
        if self.interrupted and not self.chosen.json:
            sys.stdout.write(f"interrupted after {self.verdict.schedules} of {self.chosen.schedules} schedules\n")
        if self._failed and not self.chosen.json:
            sys.stdout.write(f"processes that failed by themselves: {self._failed}\n")
        if self.verdict.broken:
            return 1
        return 2 if self._failed else INTERRUPTED if self.interrupted else 0


def has_failed(code: int, *, broken: bool, interrupted: bool) -> bool:
    """Whether a process ended by itself before its end: with a code that neither what it found nor an interrupt explains.

    An unexpected error ends a process with 1, too.
    """
    interrupts = (INTERRUPTED, -signal.SIGINT) if interrupted else ()
    return not (code == 0 or (code == 1 and broken) or code in interrupts)


def shares(base: int, schedules: int, jobs: int) -> list[range]:
    """The seeds of each process, as many as of any other but for one."""
    cuts = [base + schedules * number // jobs for number in range(jobs + 1)]
    return [range(*pair) for pair in pairwise(cuts)]


# Seeded faults --------------------------------------------------------------------------------------------------------


async def _try_faults(chosen: Namespace, dsns: Sequence[str]) -> int:
    """Each in processes of its own, for what is replaced stays replaced."""
    faults = [chosen.fault] if chosen.fault else list(FAULTS)
    todo = ((fault, chosen.base + 1_000_000 * number) for fault in faults for number in range(chosen.bases))
    found: dict[str, list[Verdict]] = defaultdict(list)
    async with anyio.create_task_group() as tg:
        for dsn in dsns:
            tg.start_soon(_try_next, chosen, dsn, todo, found)
    return 0 if all(verdict.broken for verdicts in found.values() for verdict in verdicts) else 1


async def _try_next(chosen: Namespace, dsn: str, todo: Iterator[tuple[str, int]], found: dict[str, list[Verdict]]) -> None:
    for fault, base in todo:
        found[fault].append(await anyio.to_thread.run_sync(noticed, fault, dsn, base, chosen.schedules))
        if len(found[fault]) == chosen.bases:
            sys.stdout.write(_row(fault, found[fault]) + "\n")
            sys.stdout.flush()


def _row(fault: str, verdicts: Sequence[Verdict]) -> str:
    names = sorted({name.replace("_", " ") for verdict in verdicts for name in verdict.broken})
    seen = f"{sum(bool(verdict.broken) for verdict in verdicts)} of {len(verdicts)}"
    schedules = sum(verdict.schedules for verdict in verdicts) / len(verdicts)
    seconds = sum(verdict.seconds for verdict in verdicts) / len(verdicts)
    return f"| `{fault}` | {'; '.join(names)} | {seen} | {schedules:.0f} | {seconds:.1f} |"


def noticed(fault: str, dsn: str, base: int, schedules: int) -> Verdict:
    """Up to the first schedule that notices it. Raises CalledProcessError where the schedules themselves did not get that far."""
    command = _command(dsn, *_many(base, schedules, fault), "--seconds", f"{PATIENCE_S}", "--first")
    played = subprocess.run(command, stdout=subprocess.PIPE, env=STEADY, check=False)
    verdict = Verdict()
    for line in played.stdout.splitlines():
        verdict.join(msgspec.json.decode(line, type=Verdict))
    if not verdict.broken:
        played.check_returncode()  # an unexpected error ends a process with 1, too
    return verdict
