"""Schedules in processes of their own, each on a server of its own: on one server they are decided one after the other."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path

import anyio
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream
from rich.console import Console
from rich.progress import Progress

from tests.simulation.faults import FAULTS
from tests.simulation.prepare import prepare
from tests.simulation.verdict import Verdict
from tidegate.daemon.standalone.postgres import Postgres

PATIENCE_S = 240

LONGEST = 1 << 26
"""Bytes of what a process tells at once, at most."""

STEADY = {**os.environ, "PYTHONHASHSEED": "0"}
"""In another order of sets a seed would be another schedule."""


async def run(chosen: Namespace) -> int:
    """The exit code: 1 if something was broken, or a seeded fault not noticed; 2 if schedules failed by themselves."""
    alone = chosen.seed is not None or chosen.kept
    async with AsyncExitStack() as stack:
        dsns = [await stack.enter_async_context(_server()) for _ in range(1 if alone else chosen.jobs)]
        if alone:
            command = _command(dsns[0], *sys.argv[1:])
            return (await anyio.run_process(command, stdout=None, stderr=None, env=STEADY, check=False)).returncode
        return await (_try_faults if chosen.faults else _judge)(chosen, dsns)


@asynccontextmanager
async def _server() -> AsyncIterator[str]:
    home = Path(tempfile.mkdtemp(prefix="simulation-"))
    home.chmod(0o755)
    try:
        async with Postgres(home, fsync=False) as server:
            await prepare(server.dsn)
            yield server.dsn
    finally:
        shutil.rmtree(home)


def _command(dsn: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "tests.simulation", *options, "--dsn", dsn]


def _many(base: int, schedules: int, fault: str) -> list[str]:
    return ["--base", f"{base}", "--schedules", f"{schedules}", *(["--fault", fault] if fault else []), "--json"]


# Many schedules -------------------------------------------------------------------------------------------------------


async def _judge(chosen: Namespace, dsns: Sequence[str]) -> int:
    verdict, codes = Verdict(), set[int]()
    began = time.monotonic()
    limits = ["--seconds", f"{chosen.seconds}", "--lines", f"{chosen.lines}", *(["--first"] if chosen.first else [])]
    limits += ["--group", chosen.group] if chosen.group else []
    with Progress(console=Console(stderr=True), transient=True, disable=chosen.json) as progress:
        shown = progress.add_task("schedules", total=chosen.schedules)
        async with anyio.create_task_group() as tg:

            def hear(part: Verdict) -> None:
                verdict.join(part)
                progress.advance(shown, part.schedules)
                if part.sentences and not chosen.json:
                    sys.stdout.write("\n".join([*part.sentences, ""]))
                if chosen.first and verdict.broken:
                    tg.cancel_scope.cancel()

            for dsn, seeds in zip(dsns, shares(chosen.base, chosen.schedules, len(dsns)), strict=True):
                command = _command(dsn, *_many(seeds.start, len(seeds), chosen.fault), *limits)
                tg.start_soon(_play_share, command, hear, codes)
    verdict.seconds = time.monotonic() - began
    verdict.write(as_json=chosen.json)
    if verdict.broken:
        return 1
    return 2 if any(codes) else 0


def shares(base: int, schedules: int, jobs: int) -> list[range]:
    """The seeds of each process, as many as of any other but for one."""
    cuts = [base + schedules * number // jobs for number in range(jobs + 1)]
    return [range(*pair) for pair in pairwise(cuts)]


async def _play_share(command: Sequence[str], hear: Callable[[Verdict], None], codes: set[int]) -> None:
    """What a process says on its way to its end is its own."""
    async with await anyio.open_process(command, stderr=None, env=STEADY) as process:
        assert process.stdout is not None
        told = BufferedByteReceiveStream(process.stdout)
        with suppress(anyio.IncompleteRead):
            while True:
                hear(msgspec.json.decode(await told.receive_until(b"\n", LONGEST), type=Verdict))
        codes.add(await process.wait())


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
