"""Bad DAG files: each is a problem that names its line and its reason, and harms no other file."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest
from anyio.from_thread import BlockingPortal

from tests.integration.dagfiles.conftest import GOOD, SPEC, Write, interrupted, parse, problem, small_limits, write_below
from tidegate.daemon.dagfiles.parse import open_parser
from tidegate.daemon.settings import Settings
from tidegate.schemas.dag import REPEAT_DIGEST, ImportProblem, ParsedFile

ParseOne = Callable[[str], ParsedFile]

MOVE = "move the work into a task"
CPU = f"it used up 1 s of processor time (TIDEGATE_PARSE_CPU_S); {MOVE}"
EXITED = "it ended its process with exit code 0, as os._exit does; a DAG file only builds DAGs"
MEMORY = f"it needs more than 200 MiB of memory (TIDEGATE_PARSE_MEMORY_MB); {MOVE}"
OUTPUT = "it prints or writes more than 1 MiB (TIDEGATE_PARSE_OUTPUT_MB)"

BAD: dict[str, tuple[str, int | None, str]] = {
    "syntax error": ("import tidegate\ndef f(:\n", 2, "SyntaxError: invalid syntax"),
    "taken for a DAG file": (
        "import sys\ndag, path = sys.argv\n",
        2,
        "ValueError: not enough values to unpack (expected 2, got 1); it was taken for a DAG file because of the name 'dag'"
        " in it: if it builds no DAGs, exclude it by .tidegateignore",
    ),
    "wrong indentation": ("import tidegate\n  x = 1\n", 2, "IndentationError: unexpected indent"),
    "exception": ("import tidegate\ndef f():\n  return 1 / 0\nf()\n", 3, "ZeroDivisionError: division by zero"),
    "exception without words": ("import tidegate\nassert False\n", 2, "AssertionError"),
    "exception that cannot be shown": (
        "import tidegate\nclass E(Exception):\n  def __str__(self): return 1/0\nraise E\n",
        4,
        "E",
    ),
    "exception with words that are no text": ("import tidegate\nraise ValueError('\\ud800')\n", 2, "ValueError: ?"),
    "exception in a library": ("import tidegate, json\n\njson.loads('{')\n", 3, "JSONDecodeError: Expecting property name"),
    "endless recursion": ("import tidegate\ndef f(): f()\nf()\n", 2, "RecursionError: maximum recursion depth exceeded"),
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
    "NUL in a text": ("from tidegate import Dag\nDag('d', description='a\\0b')\n", 2, "DAG 'd': a text contains a NUL character"),
    "surrogate in a text": (
        "from tidegate import Dag\nDag('d', description='\\ud800')\n",
        2,
        "DAG 'd': a text is not valid Unicode: ",
    ),
    "several mistakes": (
        "from tidegate import Dag\nwith Dag('d', retries=1) as dag:\n  dag.empty('a', pool=1)\n  dag.empty('b', colour=1)\n"
        "Dag('e', tags=1)\n",
        2,
        "DAG 'd': unknown argument retries; also line 3: DAG 'd', task 'a': pool: expected `str`, got `int`; write str(…) around"
        " it; "
        "also line 4: DAG 'd', task 'b': unknown option colour; also line 5: DAG 'e': tags ",
    ),
    "a mistake that another one follows from": (
        "from tidegate import Dag\nwith Dag('d') as dag:\n  dag.sql('a', 1) >> 1 / 0\n",
        3,
        "DAG 'd', task 'a': sql: expected `str`, got `int`",
    ),
    "credentials": (
        "import os, tidegate\nos.environ['TIDEGATE_POSTGRES_DSN']\n",
        2,
        "KeyError: there is no environment variable TIDEGATE_POSTGRES_DSN; DAG files never read settings; ",
    ),
}

MAY_PASS = ("crash in C", "abort", "missing module")
"""The files that are to be parsed again: the host may be the cause."""


@pytest.fixture(scope="module")
def parse_one(portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ParseOne]:
    """Parse a text as a DAG file, all in one parser."""
    root = tmp_path_factory.mktemp("dags")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TIDEGATE_POSTGRES_DSN", "postgresql://secret")
        with portal.wrap_async_context_manager(open_parser(small_limits(root))) as parser:
            yield lambda text: portal.call(parser.parse, write_below(root, "file.py", text))


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_a_problem_with_line_and_reason_and_the_next_one_parses(parse_one: ParseOne, case: str) -> None:
    text, line, reason = BAD[case]

    bad, good = parse_one(text), parse_one(GOOD)

    found = problem(bad)
    assert found.reason.startswith(reason) or (line is None and reason in found.reason)
    assert line is None or found.line == line
    assert (bad.digest == REPEAT_DIGEST) == (case in MAY_PASS)
    assert good.dags == (SPEC,)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("import tidegate\nwhile True:\n  n = 1\n", (2, 3)),
        ("import tidegate\ntry:\n  while True: pass\nexcept Exception: pass\n", (3,)),
    ],
)
def test_an_endless_loop_is_blamed_on_its_line(parse_one: ParseOne, text: str, lines: Sequence[int]) -> None:
    found = problem(parse_one(text))

    assert (found.reason, found.line in lines) == (CPU, True)


async def test_an_endless_sleep_ends_at_the_limit_of_the_wall_clock(settings: Settings, write: Write) -> None:
    path = write("sleep.py", "import tidegate, time\n\ntime.sleep(600)\n")

    wall_s, parsed = await interrupted(settings, path, 3, 0.3, 3, 60)

    reason = f"it was still running after {wall_s:g} s (TIDEGATE_PARSE_WALL_S); {MOVE}"
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
    (parsed,) = await parse(settings, write("stubborn.py", text))

    assert problem(parsed).reason == f"it was still running after 0.3 s (TIDEGATE_PARSE_WALL_S) and did not stop; {MOVE}"
