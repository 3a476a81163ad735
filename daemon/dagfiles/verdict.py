"""Validates the result of a sandbox: DAGs, or a problem for the author of the file."""

import re
import signal

import msgspec

from tidegate.daemon.dagfiles.message import Limits, Outcome, Reply, decode_outcome
from tidegate.schemas.authoring.validation import validate_dag
from tidegate.schemas.dag import ImportProblem, encode_spec
from tidegate.schemas.error import DagError

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_UNPRINTABLE = re.compile("[\0\ud800-\udfff]")


def judge(reply: Reply, result: bytes, printed: bytes, filename: str, limits: Limits) -> Outcome:
    """The outcome, if the untrusted result is complete and valid; else a problem."""
    if (reason := _ended_badly(reply, limits)) is not None:
        return Outcome(problem=ImportProblem(reason=reason, line=crash_line(printed, filename)))
    if not result:
        words = f"it ended its process with exit code {reply.status}, as os._exit does; a DAG file only builds DAGs"
        return Outcome(problem=ImportProblem(reason=words))
    try:
        outcome = decode_outcome(result)
        _check(outcome)
    except (msgspec.MsgspecError, DagError, RecursionError, UnicodeDecodeError) as error:
        return Outcome(problem=ImportProblem(reason=printable(f"its DAGs are not valid: {error}")))
    if outcome.problem is None:
        return outcome
    return Outcome(problem=ImportProblem(reason=printable(outcome.problem.reason), line=outcome.problem.line))


def crash_line(printed: bytes, filename: str) -> int | None:
    """The line of a crash in C, from the output of faulthandler."""
    found = re.findall(rf'File "{re.escape(filename)}", line (\d+)'.encode(), printed)
    return int(found[0]) if found else None


def printable(text: str) -> str:
    """The text without characters that Postgres or JSON reject."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _ended_badly(reply: Reply, limits: Limits) -> str | None:
    if reply.timed_out:
        return (
            f"it was still running after {limits.wall_s:g} s (TIDEGATE_PARSE_WALL_S) and did not stop; move the work into a task"
        )
    if reply.status >= 0:
        return None
    if reply.cpu_s >= limits.cpu_s and -reply.status in (signal.SIGKILL, signal.SIGXCPU):
        return f"it used up {limits.cpu_s} s of processor time (TIDEGATE_PARSE_CPU_S) and did not stop; move the work into a task"
    return f"its process was killed by {_name(-reply.status)}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _check(outcome: Outcome) -> None:
    """Raises DagError for what the schema does not exclude."""
    seen = set()
    for spec in outcome.dags:
        validate_dag(spec)
        text = encode_spec(spec)
        if b"u0000" in text and _NUL.search(text):
            raise DagError(f"DAG {spec.dag_id!r}: a text contains a NUL character")
        if spec.dag_id in seen:
            raise DagError(f"dag_id {spec.dag_id!r} is used twice")
        seen.add(spec.dag_id)
