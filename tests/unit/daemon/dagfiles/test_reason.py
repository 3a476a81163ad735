"""The reason of a problem is the same at each parse."""

import tempfile

import pytest

from tidegate import Dag
from tidegate.daemon.dagfiles import execute
from tidegate.daemon.dagfiles.execute import write
from tidegate.daemon.dagfiles.message import Limits, Outcome, decode_outcome, encode
from tidegate.daemon.dagfiles.reasons import may_pass, reason, with_further
from tidegate.schemas.error import DagError

LIMITS = Limits(wall_s=30, cpu_s=20, memory_mb=512, output_mb=4)
FILE = "/dags/daily.py"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (object(), "<object object>"),
        ({"k": object()}, "{'k': <object object>}"),
        (lambda: 0, "<function <lambda>>"),
        ((n for n in (1,)), "<generator object <genexpr>>"),
        ([].append, "<built-in method append of list object>"),
        ("a < b at 5", "'a < b at 5'"),
        ("error at 0x10", "'error at 0x10'"),
    ],
)
def test_a_value_is_shown_without_its_address(value: object, shown: str) -> None:
    error = DagError(f"DAG 'd': conf is not {value!r}")

    assert reason(error, FILE, LIMITS) == f"DAG 'd': conf is not {shown}"


def test_an_exception_of_the_file_and_an_exit_code_are_shown_without_addresses() -> None:
    raised = [ValueError(object()), SystemExit(object()), ModuleNotFoundError(f"no {object()}")]

    assert [" at 0x" in reason(error, FILE, LIMITS) for error in raised] == [False] * 3


def test_further_mistakes_are_told_with_their_lines_up_to_nine() -> None:
    mistakes = [DagError("one", (FILE, 1)), DagError("no place"), *(DagError(f"m{n}", (FILE, n)) for n in range(10, 20))]

    told = with_further("one; advice", mistakes)

    assert told.startswith("one; advice; also no place; also line 10: m10; also line 11: m11; ")
    assert told.endswith("; also line 17: m17; and 2 more")


def raised(code: str) -> Exception:
    dag = Dag("d")
    try:
        exec(code, {"dag": dag, "a": dag.empty("a"), "b": dag.empty("b")})  # noqa: S102
    except Exception as error:  # noqa: BLE001 - its reason is looked at
        return error
    raise AssertionError(f"{code} raises nothing")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("from tidegate import task", "; write `@dag.task` above the function, in the block of `with Dag(…) as dag:`"),
        ("from tidegate import Datset", "; did you mean Dataset?"),
        ("from tidegate import zzz", ")"),
        ("from json import task", ")"),
        ("dag.function", "attribute 'function'; write .task"),
        ("dag.comand", "; did you mean command?"),
        ("[].comand", "attribute 'comand'"),
        ("[a] >> [b]", "; Python links no two lists: write `for task in [a, b]: task >> [c, d]`"),
        ("(a, b) << [a]", "; Python links no two lists: write `for task in [a, b]: task << [c, d]`"),
        ("[] >> 1", "'list' and 'int'"),
        ("dag.command('x', [1])", "argv[0]: expected `str`, got `int`; write str(…) around it"),
    ],
)
def test_a_name_of_another_scheduler_and_a_refused_link_have_a_remedy(code: str, remedy: str) -> None:
    assert reason(raised(code), FILE, LIMITS).endswith(remedy)


def caused_by(cause: BaseException) -> ValueError:
    error = ValueError("no schema")
    error.__cause__ = cause
    return error


OFFLINE = "; DAG files are read without network: do this in a task"
UNRESOLVED = "Failed to resolve 'example.com' ([Errno -3] Temporary failure in name resolution)"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (OSError(101, "Network is unreachable"), f"OSError: [Errno 101] Network is unreachable{OFFLINE}"),
        (ConnectionError(UNRESOLVED), f"ConnectionError: {UNRESOLVED}{OFFLINE}"),
        (caused_by(OSError(-2, "Name or service not known")), f"ValueError: no schema{OFFLINE}"),
        (caused_by(KeyError("name")), "ValueError: no schema"),
        (ConnectionError(), "ConnectionError"),
        (
            ModuleNotFoundError("No module named 'airflow'", name="airflow"),
            "No module named 'airflow'; this is a DAG file of Airflow: tidegate import-airflow translates it",
        ),
        (
            ModuleNotFoundError("No module named 'airflow_x'", name="airflow_x"),
            "No module named 'airflow_x'; install it where the daemon runs, or put it into the DAG folder",
        ),
    ],
)
def test_what_a_dag_file_cannot_have_is_said_with_what_to_do(error: BaseException, shown: str) -> None:
    assert reason(error, FILE, LIMITS) == shown


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ModuleNotFoundError("No module named 'x'"), True),
        (ImportError("libx.so.1: cannot open shared object file"), True),
        (FileNotFoundError(2, "No such file or directory"), True),
        (BlockingIOError(11, "Resource temporarily unavailable"), True),
        (OSError(27, "File too large"), False),
        (OSError(24, "Too many open files"), False),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("a mistake"), False),
        (SyntaxError("invalid syntax"), False),
        (DagError("DAG 'd': its tasks form a cycle"), False),
        (MemoryError(), False),
    ],
)
def test_a_problem_that_the_host_may_cause_may_pass(error: BaseException, passes: bool) -> None:
    assert may_pass(error) == passes


def test_an_address_that_is_cut_off_is_left_out() -> None:
    value = [object()]

    texts = [reason(DagError(f"not {value!r:.{length}}; write a list"), FILE, LIMITS) for length in range(len(repr(value)))]

    assert [text for text in texts if "0x" in text] == []


def test_dags_that_no_memory_is_left_to_write_are_a_problem_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_once(_: Outcome) -> bytes:
        monkeypatch.setattr(execute, "encode", encode)
        raise MemoryError

    monkeypatch.setattr(execute, "encode", fail_once)
    with tempfile.TemporaryFile() as file:
        write(file.fileno(), Outcome(), LIMITS)
        problem = decode_outcome(file.read()).problem

    assert problem is not None
    assert problem.reason.startswith("it needs more than 512 MiB of memory")
