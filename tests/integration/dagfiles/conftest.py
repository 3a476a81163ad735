"""A DAG folder of a test's own, and a parser for it with small limits."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import dedent

import msgspec
import psutil
import pytest

from tests import waiting
from tests.integration.dagfiles.watched_folder import Database
from tidegate.daemon.dagfiles.parse import open_parser
from tidegate.daemon.settings import Settings
from tidegate.schemas.conditions.condition import DatasetRef
from tidegate.schemas.dag import DagSpec, EmptyTask, ImportProblem, ParsedFile, SqlTask

Write = Callable[[str, str], str]

GOOD = """
    from tidegate import Dag, Dataset

    with Dag("good", schedule=Dataset("lake://flights")) as dag:
        dag.empty("start") >> dag.sql("report", "SELECT 1")
"""
SPEC = DagSpec(
    dag_id="good",
    schedule=DatasetRef("lake://flights"),
    tasks=(EmptyTask(task_id="start", weight=2), SqlTask(task_id="report", upstream=("start",), sql="SELECT 1")),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "dags"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(root: Path) -> Settings:
    return small_limits(root)


@pytest.fixture
def write(root: Path) -> Write:
    """Write a file of the DAG folder; returns its path relative to it."""
    return partial(write_below, root)


@pytest.fixture
def database(root: Path) -> Database:
    """Where the reports of a watcher go."""
    return Database(root)


def small_limits(root: Path) -> Settings:
    return Settings(
        postgres_dsn="postgresql://unused",
        kafka_servers="unused",
        dags_folder=str(root),
        parse_wall_s=20,
        parse_cpu_s=1,
        parse_memory_mb=200,
        parse_output_mb=1,
    )


def write_below(root: Path, path: str, text: str) -> str:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(dedent(text))
    return path


def zygotes(daemon: psutil.Process) -> list[psutil.Process]:
    return [child for child in daemon.children() if "tidegate.daemon.dagfiles.zygote" in _command(child)]


def _command(process: psutil.Process) -> list[str]:
    """Empty for a process that has ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def sandboxed() -> list[psutil.Process]:
    """The processes of the DAG files that this process parses: a sandbox makes a session, unlike the processes that serve it."""
    return [
        child
        for zygote in zygotes(psutil.Process())
        for child in zygote.children(recursive=True)
        if _session(child) != zygote.pid
    ]


def _session(process: psutil.Process) -> int | None:
    with suppress(ProcessLookupError):
        return os.getsid(process.pid)
    return None


async def until(holds: Callable[[], bool]) -> None:
    await waiting.until(holds, 60)


async def parse(settings: Settings, *paths: str) -> list[ParsedFile]:
    async with open_parser(settings) as parser:
        return [await parser.parse(path) for path in paths]


async def interrupted(settings: Settings, path: str, line: int, *walls_s: float) -> tuple[float, ParsedFile]:
    """The first of these limits that ends a parse in this line of the file, and its result.

    On a busy machine a sandbox may take longer to come so far; one that has not begun is killed, and no line is known.
    """
    for wall_s in walls_s:
        (parsed,) = await parse(msgspec.structs.replace(settings, parse_wall_s=wall_s), path)
        if problem(parsed).line == line:
            return wall_s, parsed
    raise AssertionError(parsed)


def problem(parsed: ParsedFile) -> ImportProblem:
    assert parsed.problem is not None, parsed
    assert parsed.dags == ()
    return parsed.problem
