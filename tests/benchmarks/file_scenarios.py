"""Scenarios F and F2: how soon DAG files are in force."""

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter

import anyio

from tests.benchmarks import peer
from tests.benchmarks.bench import LOADED, Bench, bench
from tests.benchmarks.figures import Figure, duration, percentiles

FILES = 1_000
MANY = 10_000
CHANGES = 30
TOLD = ((50, peer.CHANGED_MS, 100), (99, peer.NONE, None))

NONE_YET = """
from tidegate import Dag
with Dag("none_yet") as dag:
    dag.empty("nothing")
"""

FILE = """
from tidegate import Dag
with Dag("dag_{number}") as dag:
    dag.command("first", ["echo", "{word}"]) >> dag.command("second", ["true"]) >> dag.command("third", ["true"])
"""

IMPORTING = """
from tidegate import Dag
from lib.common import WORD
with Dag("dag_0") as dag:
    dag.command("first", ["echo", WORD]) >> dag.command("second", ["true"]) >> dag.command("third", ["true"])
"""

VERSIONS = "SELECT count(*) FROM dag_version WHERE dag_id = $1"


WORDS = count()


async def f(repeat: int) -> list[Figure]:
    """1,000 files of three tasks at the start of a daemon; one that changed while none was there; then a file, and a module."""
    starts, restarts, files, modules = [], [], [], []
    for _ in range(repeat + 1):
        async with bench(NONE_YET, 1) as ready:
            starts.append(await _started_s(ready, partial(write_all, files=FILES), LOADED, 1 + FILES))
            restarts.append(await _started_s(ready, write_one, VERSIONS, 2, "dag_1"))
            files.append([await _changed_ms(ready, write_one, "dag_1") for _ in range(CHANGES)])
            modules.append([await _changed_ms(ready, write_module, "dag_0") for _ in range(CHANGES)])
    return [
        duration("F", f"a daemon starts → {FILES:,} files are stored", starts[1:], peer.FILES_S, 3),
        duration("F", f"a daemon starts → the one of {FILES:,} files that changed is stored", restarts[1:], peer.NONE, None),
        *percentiles("F", "a file changes → its new version is stored", files[1:], TOLD),
        *percentiles("F", "a module changes → the new version of its DAG is stored", modules[1:], TOLD),
    ]


async def f2(repeat: int) -> list[Figure]:
    """A daemon starts with 10,000 files of three tasks that are stored, of which one changed."""
    async with bench(NONE_YET, 1) as ready:
        await _started_s(ready, partial(write_all, files=MANY), LOADED, 1 + MANY)
        restarts = [await _started_s(ready, write_one, VERSIONS, 2 + number, "dag_1") for number in range(repeat + 1)]
    return [duration("F2", f"a daemon starts → the one of {MANY:,} files that changed is stored", restarts[1:], peer.NONE, 2)]


async def _started_s(ready: Bench, change: Callable[[Path], None], sql: str, least: int, *args: str) -> float:
    """How long a daemon takes for a change that was made while none was there."""
    await ready.daemon.stop()
    change(Path(ready.settings["dags_folder"]))
    began_at = perf_counter()
    async with anyio.create_task_group() as tg:
        tg.start_soon(ready.daemon.start)
        stored_at = await ready.until(sql, least, *args, every_s=0.01)
    return stored_at - began_at


async def _changed_ms(ready: Bench, change: Callable[[Path], None], dag_id: str) -> float:
    """How long the daemon takes for a change."""
    versions = await ready.value(VERSIONS, dag_id)
    await anyio.sleep(0.2)
    change(Path(ready.settings["dags_folder"]))
    began_at = perf_counter()
    return (await ready.until(VERSIONS, versions + 1, dag_id) - began_at) * 1000


def write_all(folder: Path, *, files: int) -> None:
    """Of the files one imports a module."""
    (folder / "lib").mkdir()
    write_module(folder)
    (folder / "dag_0.py").write_text(IMPORTING)
    for number in range(1, files):
        (folder / f"dag_{number}.py").write_text(FILE.format(number=number, word="first"))


def write_one(folder: Path) -> None:
    (folder / "dag_1.py").write_text(FILE.format(number=1, word=next(WORDS)))


def write_module(folder: Path) -> None:
    (folder / "lib" / "common.py").write_text(f"WORD = 'word {next(WORDS)}'\n")
