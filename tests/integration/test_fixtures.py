"""The fixtures keep tests apart, and notice what a test leaves behind."""

import sys
from pathlib import Path

import anyio
import asyncpg
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests import order, servers

LEAVES_A_PROCESS = """
import subprocess, sys

def test_that_leaves_a_process_whose_parent_is_gone():
    script = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", script], check=True)
"""

CRASHES = """
import os

def test_that_crashes():
    os._exit(1)
"""


async def test_a_copy_of_a_database_is_apart_from_it(postgres: str, empty_dsn: str) -> None:
    name = await servers.create_database(postgres, empty_dsn.rpartition("/")[2])
    copy = await asyncpg.connect(servers.dsn_of(postgres, name))
    await copy.execute("CREATE TABLE only_here ()")
    await copy.close()

    original = await asyncpg.connect(empty_dsn)
    found = await original.fetchval("SELECT to_regclass('only_here')")
    await original.close()
    await servers.drop_database(postgres, name)

    assert found is None


async def test_topics_of_other_tests_are_left_alone(broker: str, topic_prefix: str) -> None:
    mine, other = f"{topic_prefix}mine", f"other-{topic_prefix}other"
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    await admin.create_topics([NewTopic(mine, 1, 1), NewTopic(other, 1, 1)])

    await servers.delete_topics(broker, topic_prefix)

    with anyio.fail_after(60):
        while mine in (left := await admin.list_topics()):
            await anyio.sleep(0.02)
    await admin.delete_topics([other])
    await admin.close()
    assert other in left


async def pytest_on(folder: Path, workers: int, *tests: str) -> tuple[int, str, str]:
    """The exit status of a run of such tests, and what it said on stdout and stderr."""
    (folder / "conftest.py").write_text("from tests import servers\n\nservers.GRACE_S = 0.5\n")
    (folder / "test_leaving.py").write_text("".join(tests))
    plugins = ("tests.conftest", "no:cacheprovider", "no:schemathesis", "no:hypothesispytest")
    command = [sys.executable, "-m", "pytest", *(f"-p{plugin}" for plugin in plugins), f"-n{workers}", str(folder)]
    answer = await anyio.run_process(command, check=False)
    return answer.returncode, answer.stdout.decode(), answer.stderr.decode()


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_run_that_leaves_a_process_behind_fails(tmp_path: Path, workers: int) -> None:
    code, out, err = await pytest_on(tmp_path, workers, LEAVES_A_PROCESS)

    assert (code, "1 passed" in out) == (1, True)
    assert err.count("left behind: process") == 1


async def test_what_a_worker_that_crashed_left_behind_is_found(tmp_path: Path) -> None:
    _, out, err = await pytest_on(tmp_path, 1, LEAVES_A_PROCESS, CRASHES)

    assert "1 failed, 1 passed" in out
    assert err.count("left behind: process") == 1


def test_the_files_that_come_first_are_there() -> None:
    assert [name for name in (*order.FIRST_OF_LONG, *order.FIRST) if not (order.HERE / name).is_file()] == []
    assert [name for name in order.COUNTED if not (order.HERE / name).exists()] == []
    tests = [file.relative_to(order.HERE).as_posix() for file in order.HERE.rglob("test_*.py")]
    assert [end for end in order.UNCOUNTED if not any(test.endswith(end) for test in tests)] == []
