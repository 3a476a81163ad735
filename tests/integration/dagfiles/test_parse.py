"""DAG files, good and bad, through the real sandbox."""

import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import msgspec
import psutil
import pytest

from tests.integration.dagfiles.conftest import Write, until, zygotes
from tidegate.daemon.dagfiles.parse import open_parser
from tidegate.daemon.settings import Settings
from tidegate.schemas.dag import DagSpec, DatasetRef, EmptyTask, ImportProblem, ParsedFile, SqlTask

GOOD = """
    from tidegate import Dag, Dataset

    with Dag("good", schedule=Dataset("lake://flights")) as dag:
        dag.empty("start") >> dag.sql("report", "SELECT 1")
"""
SPEC = DagSpec(
    dag_id="good",
    schedule=DatasetRef("lake://flights"),
    tasks=(EmptyTask(task_id="start"), SqlTask(task_id="report", upstream=("start",), sql="SELECT 1")),
)

MOVE = "move the work into a task"
CPU = f"it used up 1 s of processor time (TIDEGATE_PARSE_CPU_S); {MOVE}"
EXITED = "it ended its process with exit code 0, as os._exit does; a DAG file only builds DAGs"
MEMORY = f"it needs more than 200 MiB of memory (TIDEGATE_PARSE_MEMORY_MB); {MOVE}"
OUTPUT = "it prints or writes more than 1 MiB (TIDEGATE_PARSE_OUTPUT_MB)"

BAD: dict[str, tuple[str, int | None, str]] = {
    "syntax error": ("import tidegate\ndef f(:\n", 2, "SyntaxError: invalid syntax"),
    "wrong indentation": ("import tidegate\n  x = 1\n", 2, "IndentationError: unexpected indent"),
    "exception": ("import tidegate\ndef f():\n  return 1 / 0\nf()\n", 3, "ZeroDivisionError: division by zero"),
    "exception without words": ("import tidegate\nassert False\n", 2, "AssertionError"),
    "exception that cannot be shown": (
        "import tidegate\nclass E(Exception):\n  def __str__(self): return 1/0\nraise E\n",
        4,
        "E",
    ),
    "exception in a library": ("import tidegate, json\n\njson.loads('{')\n", 3, "JSONDecodeError: Expecting property name"),
    "endless recursion": ("import tidegate\ndef f(): f()\nf()\n", 2, "RecursionError: maximum recursion depth exceeded"),
    "endless loop": ("import tidegate\nwhile True:\n  pass\n", None, CPU),
    "endless loop in C": ("import tidegate\nsum(iter(int, 1))\n", None, f"{CPU.removesuffix(f'; {MOVE}')} and did not stop"),
    "os._exit": ("import os, tidegate\nos._exit(0)\n", None, EXITED),
    "sys.exit": ("import sys, tidegate\nsys.exit(3)\n", 2, "it called sys.exit(3); a DAG file only builds DAGs"),
    "10 GB at once": ("import tidegate\nx = bytearray(10 * 2**30)\n", 2, MEMORY),
    "10 GB little by little": ("import tidegate\nx = []\nfor n in range(10**4):\n  x.append(bytearray(2**20))\n", 4, MEMORY),
    "crash in C": ("import ctypes, tidegate\n\nctypes.string_at(0)\n", 3, "its process was killed by SIGSEGV"),
    "abort": ("import os, tidegate\nos.abort()\n", 2, "its process was killed by SIG"),
    "print flood": ("import tidegate\nwhile True:\n  print('x' * 1000)\n", 3, OUTPUT),
    "large file": ("import tempfile, tidegate\nf = tempfile.TemporaryFile()\nf.write(b'x' * 2**21)\n", 3, OUTPUT),
    "too many files": ("import os, tidegate\nfor _ in range(99): os.dup(0)\n", 2, "OSError: [Errno 24] Too many open files"),
    "too much output": (
        "from tidegate import Dag\nDag('d', description='x' * 2**21)\n",
        None,
        "its DAGs take 2.0 MiB when serialised; at most 1 MiB are accepted (TIDEGATE_PARSE_OUTPUT_MB)",
    ),
    "cycle": (
        "from tidegate import Dag\ndag = Dag('d')\na, b = dag.empty('a'), dag.empty('b')\na >> b\nb >> a\n",
        5,
        "DAG 'd': its tasks form a cycle: a >> b >> a",
    ),
    "duplicate task id": (
        "from tidegate import Dag\ndag = Dag('d')\ndag.empty('a')\ndag.empty('a')\n",
        4,
        "DAG 'd': task_id 'a' is used twice; each task needs a name of its own",
    ),
    "duplicate dag id": (
        "from tidegate import Dag\nDag('d')\nDag('d')\n",
        3,
        "dag_id 'd' is used twice in this file; each DAG needs a name of its own",
    ),
    "unknown operator": (
        "from tidegate import Dag, Dataset\na, b = Dataset('x://a'), Dataset('x://b')\nDag('d', schedule=a ^ b)\n",
        3,
        "^ is not an operator on datasets; combine them with & (and) and | (or)",
    ),
    "and instead of &": (
        "from tidegate import Dag, Dataset\na, b = Dataset('x://a'), Dataset('x://b')\nDag('d', schedule=a and b)\n",
        3,
        "datasets are combined with & and |, not with `and`, `or`, `not` or `if`",
    ),
    "missing module": (
        "import tidegate\nimport no_such_module\n",
        2,
        "No module named 'no_such_module'; install it where the daemon runs, or put it into the DAG folder",
    ),
    "NUL in a text": ("from tidegate import Dag\nDag('d', description='a\\0b')\n", None, "a text contains a NUL character"),
    "surrogate in a text": ("from tidegate import Dag\nDag('d', description='\\ud800')\n", None, "not valid Unicode"),
    "credentials": ("import os, tidegate\nos.environ['TIDEGATE_POSTGRES_DSN']\n", 2, "KeyError: 'TIDEGATE_POSTGRES_DSN'"),
}


async def parse(settings: Settings, *paths: str) -> list[ParsedFile]:
    async with open_parser(settings) as parser:
        return [await parser.parse(path) for path in paths]


def zygote() -> psutil.Process:
    (found,) = zygotes(psutil.Process())
    return found


def problem(parsed: ParsedFile) -> ImportProblem:
    assert parsed.problem is not None, parsed
    assert parsed.dags == ()
    return parsed.problem


async def test_a_good_file_gives_its_dags_its_source_and_its_digest(settings: Settings, root: Path, write: Write) -> None:
    (parsed,) = await parse(settings, write("team/good.py", GOOD))

    assert (parsed.path, parsed.dags, parsed.problem) == ("team/good.py", (SPEC,), None)
    assert parsed.source == (root / "team/good.py").read_text()
    assert parsed.digest is not None
    assert len(parsed.digest) == 64
    assert 0 < parsed.duration_s < 5


async def test_a_file_that_is_gone_has_no_digest(settings: Settings) -> None:
    assert await parse(settings, "gone.py") == [ParsedFile(path="gone.py", digest=None)]


async def test_a_path_that_leads_outside_is_a_problem(settings: Settings) -> None:
    (parsed,) = await parse(settings, "../outside.py")

    assert problem(parsed).reason == "the path must be relative to the DAG folder and stay below it"


async def test_a_file_that_cannot_hold_dags_is_not_even_run(settings: Settings, root: Path, write: Write) -> None:
    (parsed,) = await parse(settings, write("other.py", "1 / 0\n"))

    assert (parsed.dags, parsed.problem) == ((), None)
    assert parsed.digest


@pytest.mark.parametrize("case", BAD)
async def test_a_bad_file_is_a_problem_with_line_and_reason_and_the_next_one_parses(
    settings: Settings, write: Write, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    text, line, reason = BAD[case]
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", "postgresql://secret")

    bad, good = await parse(settings, write("bad.py", text), write("good.py", GOOD))

    found = problem(bad)
    assert found.reason.startswith(reason) or (line is None and reason in found.reason)
    assert line is None or found.line == line
    assert good.dags == (SPEC,)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import tidegate\nwhile True:\n  n = 1\n", (2, 3)),
        ("import tidegate\ntry:\n  while True: pass\nexcept Exception: pass\n", (3,)),
    ],
)
async def test_an_endless_loop_is_blamed_on_its_line(settings: Settings, write: Write, text: str, line: Sequence[int]) -> None:
    (parsed,) = await parse(settings, write("loop.py", text))

    assert (problem(parsed).reason, problem(parsed).line in line) == (CPU, True)


async def test_an_endless_sleep_ends_at_the_limit_of_the_wall_clock(settings: Settings, write: Write) -> None:
    settings = msgspec.structs.replace(settings, parse_wall_s=0.3)

    (parsed,) = await parse(settings, write("sleep.py", "import tidegate, time\n\ntime.sleep(60)\n"))

    reason = f"it was still running after 0.3 s (TIDEGATE_PARSE_WALL_S); {MOVE}"
    assert problem(parsed) == ImportProblem(reason=reason, line=3)


async def test_a_loop_that_nothing_interrupts_is_killed(settings: Settings, write: Write) -> None:
    settings = msgspec.structs.replace(settings, parse_wall_s=0.3)
    text = """
        import signal, tidegate, time
        signal.setitimer(signal.ITIMER_REAL, 0)
        while True:
            try:
                time.sleep(60)
            except BaseException:
                pass
    """
    started = time.monotonic()

    (parsed,) = await parse(settings, write("stubborn.py", text))

    assert problem(parsed).reason == f"it was still running after 0.3 s (TIDEGATE_PARSE_WALL_S) and did not stop; {MOVE}"
    assert time.monotonic() - started < 2.5


@pytest.fixture
def listener() -> Iterator[str]:
    """The address of a server on loopback that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        yield f"({host!r}, {port})"


async def test_a_file_reaches_no_network(settings: Settings, write: Write, listener: str) -> None:
    text = f"import socket, tidegate\nsocket.create_connection({listener}, timeout=1)\n"

    (parsed,) = await parse(settings, write("phone_home.py", text))

    assert problem(parsed) == ImportProblem(reason="OSError: [Errno 101] Network is unreachable", line=2)


async def test_a_file_sees_an_environment_without_secrets(
    settings: Settings, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TZ", "UTC")
    text = "import os\nfrom tidegate import Dag\nDag('d', tags=sorted(os.environ))\n"

    (parsed,) = await parse(settings, write("env.py", text))

    shown = {"LANG", "LC_ALL", "LC_CTYPE", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "TZ"}
    assert "TZ" in parsed.dags[0].tags
    assert set(parsed.dags[0].tags) <= shown


async def test_a_file_cannot_read_the_environment_of_the_daemon(settings: Settings, write: Write) -> None:
    text = f"import tidegate\nopen('/proc/{os.getpid()}/environ', 'rb').read()\n"

    (parsed,) = await parse(settings, write("spy.py", text))

    assert problem(parsed).reason.startswith("PermissionError: [Errno 13] Permission denied")


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

    async with open_parser(settings) as parser:
        most = 0

        async def count() -> None:
            nonlocal most
            while True:
                most = max(most, len(zygote().children(recursive=True)))
                await anyio.sleep(0.05)

        async with anyio.create_task_group() as tg:
            tg.start_soon(count)
            parsed = await parser.parse(write("bomb.py", text))
            tg.cancel_scope.cancel()
        await until(lambda: not zygote().children(recursive=True))

    assert problem(parsed).reason.startswith("it ")
    assert 2 < most <= 80


async def test_what_a_file_left_running_ends_with_it(settings: Settings, write: Write) -> None:
    text = """
        import subprocess
        from tidegate import Dag
        Dag("d", tags=[str(subprocess.Popen(["sleep", "60"], start_new_session=True).pid)])
    """

    async with open_parser(settings) as parser:
        parsed = await parser.parse(write("daemonizes.py", text))
        await until(lambda: not zygote().children(recursive=True))

    assert parsed.problem is None


async def test_a_file_can_import_its_siblings_and_leaves_no_bytecode(settings: Settings, root: Path, write: Write) -> None:
    write("lib/__init__.py", "")
    write("lib/lake.py", "from tidegate import Dataset\nflights = Dataset('lake://flights')\n")
    user = write("user.py", "from lib.lake import flights\nfrom tidegate import Dag\nDag('user', schedule=flights)\n")

    (parsed,) = await parse(settings, user)

    assert [spec.dag_id for spec in parsed.dags] == ["user"]
    assert [folder for folder, _, _ in os.walk(root) if folder.endswith("__pycache__")] == []


async def test_a_mistake_in_a_sibling_is_blamed_on_the_import(settings: Settings, root: Path, write: Write) -> None:
    write("broken.py", "x = (\n")

    (parsed,) = await parse(settings, write("user.py", "import tidegate\nimport broken\n"))

    assert problem(parsed) == ImportProblem(reason=f"SyntaxError: '(' was never closed in {root}/broken.py, line 1", line=2)


async def test_a_change_of_a_sibling_is_seen_by_the_next_parse(settings: Settings, write: Write) -> None:
    user = write("user.py", "import names\nfrom tidegate import Dag\nDag(names.name)\n")

    async with open_parser(settings) as parser:
        write("names.py", "name = 'before'\n")
        before = await parser.parse(user)
        write("names.py", "name = 'after'\n")
        after = await parser.parse(user)

    assert (before.dags[0].dag_id, after.dags[0].dag_id) == ("before", "after")


async def test_a_set_has_the_same_order_in_every_parser(settings: Settings, write: Write) -> None:
    text = "from tidegate import Dag\ndag = Dag('d')\nfor name in {'a', 'b', 'c', 'd', 'e', 'f'}:\n  dag.empty(name)\n"
    path = write("set.py", text)

    (first,), (second,) = await parse(settings, path), await parse(settings, path)

    assert first.dags == second.dags


async def test_several_files_are_parsed_at_once(settings: Settings, write: Write) -> None:
    paths = [
        write(f"slow{number}.py", f"import time, tidegate\ntime.sleep(0.5)\ntidegate.Dag('d{number}')") for number in range(4)
    ]
    started = time.monotonic()

    async with open_parser(settings) as parser, anyio.create_task_group() as tg:
        for path in paths:
            tg.start_soon(parser.parse, path)

    assert time.monotonic() - started < 1.6


async def test_a_cancelled_parse_kills_the_file(settings: Settings, write: Write) -> None:
    path = write("slow.py", "import time, tidegate\ntime.sleep(60)\n")

    async with open_parser(settings) as parser:
        with anyio.move_on_after(0.5):
            await parser.parse(path)
        await until(lambda: not zygote().children(recursive=True))


async def test_a_zygote_that_dies_is_replaced_and_the_file_parses(settings: Settings, write: Write) -> None:
    async with open_parser(settings) as parser:
        killed = zygote()
        killed.kill()
        parsed = await parser.parse(write("good.py", GOOD))
        replaced = zygote()

    assert parsed.dags == (SPEC,)
    assert replaced != killed


async def test_a_zygote_that_dies_during_a_parse_is_replaced_and_the_file_is_parsed_again(
    settings: Settings, write: Write
) -> None:
    path = write("slow.py", "import time, tidegate\ntime.sleep(0.5)\ntidegate.Dag('d')\n")
    parsed: list[ParsedFile] = []

    async with open_parser(settings) as parser, anyio.create_task_group() as tg:

        async def parse_slowly() -> None:
            parsed.append(await parser.parse(path))

        tg.start_soon(parse_slowly)
        await until(lambda: len(zygote().children(recursive=True)) == 2)
        zygote().kill()

    assert [spec.dag_id for spec in parsed[0].dags] == ["d"]


async def test_nothing_runs_any_more_when_the_parser_is_closed(settings: Settings, write: Write) -> None:
    path = write("slow.py", "import time, tidegate\ntime.sleep(60)\n")

    async with open_parser(settings) as parser, anyio.create_task_group() as tg:
        tg.start_soon(parser.parse, path)
        await until(lambda: len(zygote().children(recursive=True)) == 2)
        family = [zygote(), *zygote().children(recursive=True)]
        tg.cancel_scope.cancel()

    await until(lambda: not any(process.is_running() for process in family))
