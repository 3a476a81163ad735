"""What comes out of a sandbox is judged, not believed."""

import signal

import msgspec
import pytest

from tidegate.daemon.dagfiles.message import Limits, Outcome, Reply, encode
from tidegate.daemon.dagfiles.parse import crash_line, judge
from tidegate.schemas.dag import DagSpec, EmptyTask, ImportProblem

LIMITS = Limits(wall_s=30, cpu_s=20, memory_mb=512, output_mb=4)
FILE = "/dags/daily.py"
ENDED = Reply(status=0, timed_out=False, cpu_s=0.1)


def verdict(reply: Reply, result: bytes = b"", printed: bytes = b"") -> str:
    problem = judge(reply, result, printed, FILE, LIMITS).problem
    assert problem is not None
    return problem.reason


def outcome(*specs: DagSpec) -> bytes:
    return encode(Outcome(dags=specs))


@pytest.mark.parametrize(
    ("status", "timed_out", "cpu_s", "reason"),
    [
        (-9, True, 1.0, "it was still running after 30 s (TIDEGATE_PARSE_WALL_S) and did not stop; move the work into a task"),
        (-9, False, 20.5, "it used up 20 s of processor time (TIDEGATE_PARSE_CPU_S) and did not stop; move the work into a task"),
        (
            -24,
            False,
            20.0,
            "it used up 20 s of processor time (TIDEGATE_PARSE_CPU_S) and did not stop; move the work into a task",
        ),
        (-9, False, 1.0, "its process was killed by SIGKILL"),
        (-11, False, 20.5, "its process was killed by SIGSEGV"),
        (-signal.SIGRTMIN - 1, False, 0.0, f"its process was killed by signal {signal.SIGRTMIN + 1}"),
        (0, False, 0.0, "it ended its process with exit code 0, as os._exit does; a DAG file only builds DAGs"),
        (3, False, 0.0, "it ended its process with exit code 3, as os._exit does; a DAG file only builds DAGs"),
    ],
)
def test_the_way_it_ended_is_the_reason(status: int, timed_out: bool, cpu_s: float, reason: str) -> None:
    assert verdict(Reply(status=status, timed_out=timed_out, cpu_s=cpu_s)) == reason


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        (b"not JSON", "its DAGs are not valid: JSON is malformed"),
        (b"[" * 100_000, "its DAGs are not valid: "),
        (b'{"dags": [{"dag_id": "d", "colour": 1}]}', "unknown field `colour`"),
        (b'{"dags": [], "more": 1}', "unknown field `more`"),
        (b'{"dags": [{"dag_id": "\xff"}]}', "its DAGs are not valid: "),
        (outcome(DagSpec(dag_id="d"), DagSpec(dag_id="d")), "dag_id 'd' is used twice"),
        (outcome(DagSpec(dag_id="d", tasks=(EmptyTask(task_id="t", upstream=("x",)),))), "no task 'x' comes before it"),
        (outcome(DagSpec(dag_id="d", description="a\0b")), "DAG 'd': a text contains a NUL character"),
        (outcome(DagSpec(dag_id="d", description="\\\0")), "DAG 'd': a text contains a NUL character"),
    ],
)
def test_a_result_that_is_not_one_is_refused(result: bytes, complaint: str) -> None:
    assert complaint in verdict(ENDED, result)


@pytest.mark.parametrize(
    ("reply", "result", "may_pass"),
    [
        (Reply(status=-9, timed_out=False, cpu_s=1.0), b"", True),
        (Reply(status=-15, timed_out=False, cpu_s=1.0), b"", True),
        (Reply(status=-9, timed_out=False, cpu_s=20.5), b"", False),
        (Reply(status=0, timed_out=False, cpu_s=1.0), b"", False),
        (ENDED, encode(Outcome(problem=ImportProblem(reason="no module"), may_pass=True)), True),
        (ENDED, encode(Outcome(problem=ImportProblem(reason="a mistake"))), False),
    ],
)
def test_a_problem_may_pass_if_the_host_may_be_its_cause(reply: Reply, result: bytes, may_pass: bool) -> None:
    assert judge(reply, result, b"", FILE, LIMITS).may_pass == may_pass


def test_a_sound_result_is_accepted() -> None:
    spec = DagSpec(dag_id="d", description="a backslash and zeros: \\u0000", tasks=(EmptyTask(task_id="t"),))

    assert judge(ENDED, outcome(spec), b"", FILE, LIMITS) == Outcome(dags=(spec,))


def test_a_result_counts_only_if_the_process_ended_well() -> None:
    result = outcome(DagSpec(dag_id="d"))

    assert verdict(Reply(status=-11, timed_out=False, cpu_s=0.0), result) == "its process was killed by SIGSEGV"


def test_a_reason_keeps_its_line_and_loses_what_postgres_cannot_hold() -> None:
    result = msgspec.json.encode({"problem": {"reason": "bad \0 text", "line": 3}})

    assert judge(ENDED, result, b"", FILE, LIMITS).problem == ImportProblem(reason="bad \ufffd text", line=3)


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (b"", None),
        (b'Fatal Python error: Segmentation fault\n  File "/dags/daily.py", line 7 in f\n  File "/dags/daily.py", line 9', 7),
        (b'  File "/usr/lib/ctypes.py", line 1 in f\n  File "/dags/daily.py", line 9 in <module>', 9),
        (b'  File "/dags/dailyXpy", line 9 in <module>', None),
    ],
)
def test_a_crash_is_blamed_on_the_innermost_line_of_the_file(printed: bytes, line: int | None) -> None:
    assert crash_line(printed, FILE) == line
