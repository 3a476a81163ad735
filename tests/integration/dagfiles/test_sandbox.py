"""What a DAG file cannot do to others, and that nothing of it is left behind."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec
import psutil
import pytest

from tests.integration.dagfiles.conftest import GOOD, SPEC, Write, parse, problem, sandboxed, until, zygotes
from tidegate.daemon.dagfiles.parse import open_parser
from tidegate.daemon.dagfiles.sandbox import INHERITED
from tidegate.daemon.dagfiles.source import decode
from tidegate.daemon.settings import Settings
from tidegate.daemon.standalone.process import runs
from tidegate.schemas.dag import REPEAT_DIGEST, ImportProblem, ParsedFile


def closed(folder: Path) -> bool:
    """Whether a folder lies in one that its owner alone can enter."""
    return any(not parent.stat().st_mode & 0o001 for parent in folder.parents)


def zygote() -> list[psutil.Process]:
    """The process that waits for the zygote, and, where namespaces are permitted, the zygote itself."""
    (found,) = zygotes(psutil.Process())
    return [found, *found.children()]


@pytest.fixture
def listener() -> Iterator[str]:
    """The address of a server on loopback that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        yield f"({host!r}, {port})"


async def test_a_file_reaches_no_network(settings: Settings, write: Write, listener: str) -> None:
    text = f"import socket, tidegate\nsocket.create_connection({listener}, timeout=1)\n"

    (parsed,) = await parse(settings, write("phone_home.py", text))

    assert problem(parsed) == ImportProblem(
        reason="OSError: [Errno 101] Network is unreachable; DAG files are read without network: do this in a task", line=2
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="the descriptors of a process that refuses inspection are shown to root alone")
def test_a_file_has_its_own_descriptors_alone(tmp_path: Path) -> None:
    """Event loops may leave descriptors open to a process that they start, such as a second one of the log."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, (tmp_path / "log").open("w") as log:
        passed = [theirs.fileno(), log.fileno()]
        command = [sys.executable, "-m", "tidegate.daemon.dagfiles.zygote", str(theirs.fileno())]
        with subprocess.Popen(command, pass_fds=passed, stderr=subprocess.DEVNULL) as process, ours:
            ours.recv(1000)  # it is ready
            last = [process.pid, *(child.pid for child in psutil.Process(process.pid).children())][-1]
            open_ = [os.readlink(name) for name in Path(f"/proc/{last}/fd").iterdir()]

    assert str(tmp_path / "log") not in open_
    assert [name for name in open_ if name.startswith("socket:")]


async def test_a_file_has_no_descriptor_of_a_file_beside_it(settings: Settings, write: Write) -> None:
    slow = write("slow.py", "import time, tidegate\ntime.sleep(60)\n")
    text = """
        import os, tidegate
        names = [f"/proc/self/fd/{number}" for number in range(64)]
        tidegate.Dag("d", tags=sorted({os.readlink(name) for name in names if os.path.lexists(name)}))
    """

    async with open_parser(settings) as parser, anyio.create_task_group() as tg:
        tg.start_soon(parser.parse, slow)
        await until(lambda: len(sandboxed()) == 1)
        parsed = await parser.parse(write("spy.py", text))
        tg.cancel_scope.cancel()

    assert parsed.dags[0].tags == ("/dev/null", "/memfd:printed (deleted)", "/memfd:result (deleted)")


async def test_a_file_has_a_lower_priority_than_the_daemon(settings: Settings, write: Write) -> None:
    text = "import os\nfrom tidegate import Dag\nDag(f'nice_{os.nice(0)}')\n"

    (parsed,) = await parse(settings, write("nice.py", text))

    assert parsed.dags[0].dag_id == f"nice_{min(os.nice(0) + 5, 19)}"


async def test_a_folder_that_is_gone_when_the_file_is_to_run_is_no_fault_of_the_file(settings: Settings, root: Path) -> None:
    """A deployment replaces the folder after the file was read: the same content has to be parsed again."""
    async with open_parser(settings) as parser:
        root.rmdir()
        outcome = await parser._in_sandbox("good.py", decode(GOOD.encode()))

    assert outcome.may_pass
    assert outcome.problem is not None
    why = f"its sandbox could not be set up: FileNotFoundError: [Errno 2] No such file or directory: '{root}'"
    assert outcome.problem.reason == why


async def test_a_file_sees_an_environment_without_secrets(
    settings: Settings, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TZ", "UTC")
    text = "import os\nfrom tidegate import Dag\nDag('d', tags=sorted(os.environ))\n"

    (parsed,) = await parse(settings, write("env.py", text))

    shown = {*INHERITED, "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED"}
    assert "TZ" in parsed.dags[0].tags
    assert set(parsed.dags[0].tags) <= shown


async def test_a_file_reads_the_variables_that_are_allowed(
    settings: Settings, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAGE", "test")
    monkeypatch.setenv("TIDEGATE_DAG_ENV", "STAGE, REGION")
    reads = "import os\nfrom tidegate import Dag\nDag('d', tags=[os.environ['STAGE']])\n"

    allowed, missing, setting = await parse(
        settings,
        write("allowed.py", reads),
        write("missing.py", reads.replace("STAGE", "ZONE")),
        write("setting.py", reads.replace("STAGE", "TIDEGATE_HOST")),
    )

    assert allowed.dags[0].tags == ("test",)
    assert problem(missing) == ImportProblem(
        reason="KeyError: there is no environment variable ZONE; set it where the daemon runs, and add it to TIDEGATE_DAG_ENV,"
        " which names the variables that DAG files may read",
        line=3,
    )
    assert missing.digest == REPEAT_DIGEST
    assert problem(setting).reason.endswith("TIDEGATE_HOST; DAG files never read settings; name the variable otherwise")


async def test_a_file_reads_the_paths_that_are_allowed(
    settings: Settings, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "tables.txt").write_text("tables")
        path = write("d.py", f"from tidegate import Dag\nDag('d', tags=[open('{folder}/tables.txt').read()])\n")
        (closed,) = await parse(settings, path)
        monkeypatch.setenv("TIDEGATE_DAG_READS", folder)
        (opened,) = await parse(settings, path)

    assert problem(closed).reason == (
        f"PermissionError: [Errno 13] Permission denied: '{folder}/tables.txt'; DAG files read their folder and modules, "
        "and write into temporary files only; TIDEGATE_DAG_READS opens other paths"
    )
    assert opened.dags[0].tags == ("tables",)


async def test_a_file_cannot_read_the_environment_of_the_daemon(settings: Settings, write: Write) -> None:
    text = f"import tidegate\nopen('/proc/{os.getpid()}/environ', 'rb').read()\n"

    (parsed,) = await parse(settings, write("spy.py", text))

    assert problem(parsed).reason.startswith("PermissionError: [Errno 13] Permission denied")


@pytest.mark.skipif(os.geteuid() != 0, reason="other daemons run DAG files as their own user")
async def test_a_daemon_of_root_hides_the_files_of_root(settings: Settings, write: Write, tmp_path: Path) -> None:
    (secret := tmp_path / "secret").write_text("secret")
    secret.chmod(0o600)
    text = f"import tidegate\nopen({str(secret)!r}).read()\n"

    (parsed,) = await parse(settings, write("spy.py", text))

    assert problem(parsed).reason.startswith("FileNotFoundError" if closed(tmp_path) else "PermissionError")


async def test_modules_below_a_private_folder_can_be_imported(settings: Settings, write: Write, root: Path) -> None:
    root.parent.chmod(0o700)
    write("shared/names.py", "NAME = 'd'\n")
    text = "import cProfile, sqlite3, tidegate\nfrom shared.names import NAME\ntidegate.Dag(NAME)\n"

    (parsed,) = await parse(settings, write("good.py", text))

    assert parsed.problem is None
    assert parsed.dags[0].dag_id == "d"


@pytest.mark.skipif(os.geteuid() != 0, reason="other daemons run DAG files as their own user")
async def test_modules_that_only_root_can_read_are_named(settings: Settings, write: Write, root: Path) -> None:
    root.chmod(0o700)
    write("shared.py", "NAME = 'd'\n")

    (parsed,) = await parse(settings, write("lonely.py", "import tidegate\nimport shared\n"))

    assert problem(parsed).reason.endswith(f"DAG files run without the permissions of root: let all users read {root}")


async def test_a_file_cannot_kill_the_daemon_nor_its_parser(settings: Settings, write: Write) -> None:
    text = f"""
        import os, signal, tidegate
        for pid in ({os.getpid()}, os.getppid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            else:
                raise RuntimeError(f"killed {{pid}}")
    """

    async with open_parser(settings) as parser:
        before = zygote()
        parsed = await parser.parse(write("killer.py", text))
        after = zygote()

    assert after == before
    # Process 0 is the caller's own group: a sandbox has no parent that it could see.
    assert problem(parsed).reason in ("its process was killed by SIGKILL", "RuntimeError: killed 0")


async def test_a_fork_bomb_stays_small_and_leaves_nothing_behind(settings: Settings, write: Write) -> None:
    settings = msgspec.structs.replace(settings, parse_wall_s=1)
    text = """
        import os, tidegate
        while True:
            try:
                if os.fork() == 0:
                    os.setsid()
            except OSError:
                pass
    """

    path, most = write("bomb.py", text), 0

    async with open_parser(settings) as parser:

        async def count() -> None:
            nonlocal most
            while True:
                most = max(most, len(sandboxed()))
                await anyio.sleep(0.05)

        async with anyio.create_task_group() as tg:
            tg.start_soon(count)
            with anyio.fail_after(120):
                while most <= 2:  # it may have ended before it was counted
                    parsed = await parser.parse(path)
            tg.cancel_scope.cancel()
        await until(lambda: not sandboxed())

    assert problem(parsed).reason.startswith("it ")
    assert most <= 80


@pytest.fixture
def crowd() -> Iterator[None]:
    """Another service of the sandbox's user, with more processes than a DAG file may have."""
    forks = "for _ in range(80):\n    os.fork() or time.sleep(60)"
    text = f"import os, time\nos.setuid(65534)\n{forks}\nprint(flush=True)\ntime.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="other daemons run DAG files as their own user")
async def test_other_processes_of_the_same_user_do_not_count(settings: Settings, write: Write, crowd: None) -> None:
    text = "import subprocess, tidegate\ntidegate.Dag('d', tags=[subprocess.check_output(['echo', 'b'], text=True).strip()])\n"

    (parsed,) = await parse(settings, write("forks.py", text))

    assert parsed.problem is None
    assert parsed.dags[0].tags == ("b",)


@pytest.mark.parametrize(
    "start", ["os.fork() or time.sleep(9)", "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"]
)
async def test_a_file_with_too_many_processes_is_told_how_many_it_may_have(settings: Settings, write: Write, start: str) -> None:
    text = f"import os, threading, time, tidegate\nfor _ in range(200):\n    {start}\n"

    (parsed,) = await parse(settings, write("many.py", text))

    assert problem(parsed).reason.startswith("it starts too many processes or threads; at most 64 processes and threads in ")
    assert problem(parsed).line == 3


async def test_what_a_file_left_running_ends_with_it(settings: Settings, write: Write) -> None:
    text = """
        import subprocess
        from tidegate import Dag
        Dag("d", tags=[str(subprocess.Popen(["sleep", "60"], start_new_session=True).pid)])
    """

    async with open_parser(settings) as parser:
        parsed = await parser.parse(write("daemonizes.py", text))
        await until(lambda: not sandboxed())

    assert parsed.problem is None


async def test_a_cancelled_parse_kills_the_file(settings: Settings, write: Write) -> None:
    path = write("slow.py", "import time, tidegate\ntime.sleep(60)\n")

    async with open_parser(settings) as parser:
        async with anyio.create_task_group() as tg:
            tg.start_soon(parser.parse, path)
            await until(lambda: len(sandboxed()) == 1)
            tg.cancel_scope.cancel()
        await until(lambda: not sandboxed())


async def test_a_zygote_that_dies_is_replaced_and_the_file_parses(settings: Settings, write: Write) -> None:
    async with open_parser(settings) as parser:
        killed = zygote()
        killed[0].kill()
        parsed = await parser.parse(write("good.py", GOOD))
        replaced = zygote()

    assert parsed.dags == (SPEC,)
    assert not set(replaced) & set(killed)


async def test_a_zygote_that_dies_during_a_parse_is_replaced_and_the_file_is_parsed_again(
    settings: Settings, write: Write
) -> None:
    text = "import os, time, tidegate\nwhile not os.path.exists('go'): time.sleep(0.01)\ntidegate.Dag('d')\n"
    path = write("slow.py", text)
    parsed: list[ParsedFile] = []

    async with open_parser(settings) as parser, anyio.create_task_group() as tg:

        async def parse_slowly() -> None:
            parsed.append(await parser.parse(path))

        tg.start_soon(parse_slowly)
        await until(lambda: len(sandboxed()) == 1)
        zygote()[-1].kill()
        write("go", "")

    assert [spec.dag_id for spec in parsed[0].dags] == ["d"]


async def test_nothing_runs_any_more_when_the_parser_is_closed(settings: Settings, write: Write) -> None:
    path = write("slow.py", "import time, tidegate\ntime.sleep(60)\n")

    async with open_parser(settings) as parser, anyio.create_task_group() as tg:
        tg.start_soon(parser.parse, path)
        await until(lambda: len(sandboxed()) == 1)
        family = [*zygote(), *sandboxed()]
        tg.cancel_scope.cancel()

    await until(lambda: not any(map(runs, family)))


def test_a_zygote_whose_daemon_is_gone_ends_without_a_word() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    with theirs:
        ended = subprocess.run(
            [sys.executable, "-m", "tidegate.daemon.dagfiles.zygote", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    assert (ended.returncode, ended.stderr) == (0, "")
