"""A DAG folder of a test's own, and a parser for it with small limits."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import anyio
import psutil
import pytest

from tidegate.daemon.settings import Settings

Write = Callable[[str, str], str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "dags"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(root: Path) -> Settings:
    return Settings(
        postgres_dsn="postgresql://unused",
        kafka_servers="unused",
        dags_folder=str(root),
        parse_wall_s=20,
        parse_cpu_s=1,
        parse_memory_mb=200,
        parse_output_mb=1,
        dags_scan_s=0.3,
    )


@pytest.fixture
def write(root: Path) -> Write:
    """Write a file of the DAG folder; returns its path relative to it."""

    def write(path: str, text: str) -> str:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(dedent(text))
        return path

    return write


def zygotes(daemon: psutil.Process) -> list[psutil.Process]:
    return [child for child in daemon.children() if "tidegate.daemon.dagfiles.zygote" in child.cmdline()]


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not holds():
            await anyio.sleep(0.02)
