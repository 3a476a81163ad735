"""The outcome of a task that is called as a function: what it returns or raises."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import msgspec

from tidegate.daemon.spark.runner import failure_reason
from tidegate.daemon.spark.runner.json_value import encoded
from tidegate.daemon.spark.spool import Outcome
from tidegate.schemas.error import RejectedError
from tidegate.schemas.run import MAX_RESULT_BYTES, Choice, SkipTask
from tidegate.schemas.wire.envelope import check_body

log = logging.getLogger("tidegate")

EXIT_CODES = range(-(2**31), 2**31)
"""The exit codes that an outcome can have."""

DAEMON = Path(__file__).parents[2]


def outcome_of(
    call: Callable[[], object],
    folder: Path,
    report: Callable[[BaseException], None],
    caught: type[BaseException] = BaseException,
    server: str = "",
) -> Outcome:
    """The outcome of a call. `report` gets an exception of the task, with the traceback of its own frames; others than
    `caught` are raised. An error of gRPC names the Spark `server`.

    The outcome itself is returned by a call that ran in another process.
    """
    try:
        returned = call()
    except SystemExit as stop:
        return _exited(stop)
    except SkipTask as skip:
        return Outcome(outcome="skipped", reason=failure_reason.message_of(skip))
    except failure_reason.TaskError as error:
        return Outcome(outcome="failed", reason=str(error), exit_code=error.exit_code)
    except caught as error:
        report(BaseException.with_traceback(error, _of_task(error.__traceback__, folder)))
        return Outcome(outcome="failed", reason=failure_reason.from_exception(error, folder, server))
    return returned if isinstance(returned, Outcome) else success(returned)


def _of_task(trace: TracebackType | None, folder: Path) -> TracebackType | None:
    """The traceback from the first frame outside of the daemon, or below the DAG folder; all of it if there is none."""
    rest = trace
    while rest is not None and _is_ours(Path(rest.tb_frame.f_code.co_filename), folder):
        rest = rest.tb_next
    return rest or trace


def _is_ours(file: Path, folder: Path) -> bool:
    return file.is_relative_to(DAEMON) and not file.is_relative_to(folder)


def _exited(stop: SystemExit) -> Outcome:
    """The outcome of `sys.exit` in a function. As for the interpreter, a bool is a number, and what is no number is a failure."""
    code = 0 if stop.code is None else int(stop.code) if isinstance(stop.code, int) else 1
    if code == 0:
        return Outcome(outcome="succeeded", exit_code=0)
    reason = f"SystemExit: {failure_reason.message_of(stop)}"
    return Outcome(outcome="failed", reason=reason, exit_code=code if code in EXIT_CODES else 1)


def exit_code_of(outcome: Outcome) -> int:
    """The exit code of an interpreter in which a call has ended so."""
    if outcome.exit_code is not None:
        return outcome.exit_code
    return 0 if outcome.outcome == "succeeded" else 1


def success(returned: object) -> Outcome:
    """A success with the returned value: JSON becomes the result, another value is dropped and logged."""
    if returned is None or isinstance(returned, Choice):
        return Outcome(outcome="succeeded", exit_code=0, follow=returned.task_ids if returned else None)
    try:
        content = encoded(returned)
    except TypeError as error:
        log.info("the returned value is not JSON and is not stored as result: %s", error)
        return Outcome(outcome="succeeded", exit_code=0)
    if len(content) > MAX_RESULT_BYTES:
        reason = f"it returned {len(content)} bytes of JSON; a result has at most {MAX_RESULT_BYTES}"
        return Outcome(outcome="failed", reason=f"{reason}: write the data to storage and return its location")
    try:
        check_body(b'{"result":%s}' % content)
    except RejectedError as error:
        return Outcome(outcome="failed", reason=f"the value that it returned cannot be stored: {error}")
    return Outcome(outcome="succeeded", exit_code=0, result=msgspec.json.decode(content))
