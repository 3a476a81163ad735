"""The parser in a process of its own: killed without warning, and where the kernel permits no namespaces."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import PIPE

import anyio
import msgspec
import psutil
from anyio.abc import Process

from tests.integration.dagfiles.conftest import Write, until
from tests.integration.dagfiles.users import USERS, WITHOUT_ANYTHING, WITHOUT_NAMESPACES
from tidegate.daemon.settings import Settings
from tidegate.daemon.standalone.process import runs
from tidegate.schemas.dag import REPEAT_DIGEST, ParsedFile

SCRIPT = """
import ctypes, sys
import anyio, msgspec, structlog
from tidegate.daemon.dagfiles.parse import open_parser
from tidegate.daemon.settings import Settings

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

async def main():
    async with open_parser(msgspec.json.decode(sys.argv[1], type=Settings)) as parser:
        for path in sys.argv[2:]:
            print(msgspec.json.encode(await parser.parse(path)).decode(), flush=True)

anyio.run(main)
"""

COMMAND = "from tidegate.daemon.cli.entry import main; main()"


async def parse_as(user: str, settings: Settings, *paths: str) -> tuple[list[ParsedFile], str]:
    """What each file gave, and the log."""
    command = [sys.executable, "-c", USERS[user], SCRIPT, msgspec.json.encode(settings).decode(), *paths]
    ended = await anyio.run_process(command, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    return [msgspec.json.decode(line, type=ParsedFile) for line in ended.stdout.splitlines()], ended.stderr.decode()


@asynccontextmanager
async def daemon(settings: Settings, path: str) -> AsyncIterator[Process]:
    process = await anyio.open_process([sys.executable, "-c", SCRIPT, msgspec.json.encode(settings).decode(), path], stdout=PIPE)
    async with process:
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()


async def test_no_process_survives_a_daemon_that_is_killed(settings: Settings, write: Write) -> None:
    text = "import subprocess, time, tidegate\nsubprocess.Popen(['sleep', '60'], start_new_session=True)\ntime.sleep(60)\n"

    async with daemon(settings, write("slow.py", text)) as process:
        family: list[psutil.Process] = []

        def is_complete() -> bool:
            with suppress(psutil.NoSuchProcess):  # the parser stops a file that takes long, and runs it again
                family[:] = psutil.Process(process.pid).children(recursive=True)
            return len(family) == 4

        await until(is_complete)
        process.kill()

        await until(lambda: not any(map(runs, family)))


async def test_without_any_isolation_files_are_parsed_and_the_log_says_once_what_is_missing(
    settings: Settings, write: Write
) -> None:
    path = write("good.py", "import tidegate\ntidegate.Dag('d')\n")

    parsed, log = await parse_as(WITHOUT_ANYTHING, settings, path, path)

    assert [file.dags[0].dag_id for file in parsed] == ["d", "d"]
    assert log.count("dag_files_not_isolated") == 1
    assert "the network; Unix sockets that accept the user of this daemon, such as that of Postgres; " in log
    assert "all files of the user of this daemon" in log


async def test_without_namespaces_nothing_more_is_reachable_and_the_log_says_nothing(settings: Settings, write: Write) -> None:
    text = (
        "import tempfile, tidegate\ntempfile.NamedTemporaryFile(delete=False)\ntidegate.Dag('d', tags=[tempfile.gettempdir()])\n"
    )

    (parsed,), log = await parse_as(WITHOUT_NAMESPACES, settings, write("good.py", text))

    assert parsed.problem is None
    assert "dag_files_not_isolated" not in log
    assert not os.path.exists(parsed.dags[0].tags[0])


async def test_without_namespaces_a_file_still_ends_at_its_limits(settings: Settings, write: Write) -> None:
    settings = msgspec.structs.replace(settings, parse_wall_s=2)
    sleep = write("sleep.py", "import signal, tidegate, time\nsignal.setitimer(signal.ITIMER_REAL, 0)\ntime.sleep(60)\n")
    large = write("large.py", "import tidegate\nx = bytearray(10 * 2**30)\n")

    parsed, _ = await parse_as(WITHOUT_NAMESPACES, settings, sleep, large)

    reasons = [file.problem.reason for file in parsed if file.problem is not None]
    assert [reason.partition(" (")[0] for reason in reasons] == [
        "it was still running after 2 s",
        "it needs more than 200 MiB of memory",
    ]


async def test_without_namespaces_what_a_file_left_running_ends_with_it(settings: Settings, write: Write) -> None:
    left = f"tidegate-left-{os.getpid()}"
    text = f"""
        import subprocess
        from tidegate import Dag
        Dag("d")
        subprocess.Popen(["sh", "-c", "sleep 60; : {left}"], start_new_session=True)
    """

    parsed, _ = await parse_as(WITHOUT_NAMESPACES, settings, write("daemonizes.py", text))

    assert parsed[0].problem is None
    assert not [process for process in psutil.process_iter(["cmdline"]) if left in str(process.info)]


async def test_a_file_that_kills_its_minder_is_a_problem_and_the_next_one_parses(
    settings: Settings, root: Path, write: Write
) -> None:
    seen = "open('seen.txt', 'w').write(tempfile.gettempdir())"
    killer = write("killer.py", f"import os, tempfile, tidegate\n{seen}\nos.kill(os.getppid(), 9)\n")
    good = write("good.py", "import tidegate\ntidegate.Dag('d')\n")

    (killed, parsed), _ = await parse_as(WITHOUT_ANYTHING, settings, killer, good)

    assert killed.problem is not None
    assert killed.problem.reason == "its parent process was killed while it ran"
    assert killed.digest == REPEAT_DIGEST
    left = Path((root / "seen.txt").read_text())
    assert "tidegate-dags-" in left.parent.name
    assert not left.exists()
    assert parsed.dags[0].dag_id == "d"


SPY = """
import tidegate

def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])

minder = parent("self")
daemon = parent(parent(minder))
assert b"tidegate.daemon" in open(f"/proc/{daemon}/cmdline", "rb").read()
open(f"/proc/{daemon}/environ", "rb").read()
"""


async def test_without_any_isolation_a_file_cannot_read_the_environment_of_a_command(settings: Settings, write: Write) -> None:
    command = [sys.executable, "-c", USERS[WITHOUT_ANYTHING], COMMAND, "check", f"{settings.dags_folder}/{write('spy.py', SPY)}"]

    ended = await anyio.run_process(command, check=False, env=os.environ | {"TIDEGATE_POSTGRES_DSN": "postgresql://:secret@db/x"})

    assert "spy.py:10: PermissionError: [Errno 13] Permission denied" in ended.stdout.decode()


async def test_a_command_says_what_is_missing_and_what_files_reach() -> None:
    answers = []
    for user in (WITHOUT_NAMESPACES, WITHOUT_ANYTHING):
        command = [sys.executable, "-c", USERS[user], COMMAND, "check", "--sandbox"]
        answers.append(await anyio.run_process(command, check=False))

    contained, open_ = answers
    assert (contained.returncode, open_.returncode) == (0, 1)
    assert b"DAG files reach\n  nothing\n" in contained.stdout
    assert b"network namespace       unshare: " in contained.stdout
    assert b"\n  Unix sockets that accept the user of this daemon, such as that of Postgres\n" in open_.stdout
