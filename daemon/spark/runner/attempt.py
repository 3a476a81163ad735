"""One attempt from claim to outcome. Whichever ends it first, the task or a kill, decides how it ended."""

import logging
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import msgspec

from tidegate.daemon.spark.job import Job, Outcome
from tidegate.daemon.spark.process import end_all
from tidegate.daemon.spark.runner import announcement, blame, kinds
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.run import MAX_RESULT_BYTES, Choice, SkipTask
from tidegate.schemas.wire.event import storable

log = logging.getLogger("tidegate")

LEFTOVER_GRACE_S = 1.0
KILL_GRACE_S = 5.0


class Ending(NamedTuple):
    """How an attempt ends; what it `returned` is a choice of branches or any other value."""

    outcome: Literal["succeeded", "failed", "skipped", "killed"]
    reason: str = ""
    exit_code: int | None = None
    returned: object = None


def execute(spool: Spool) -> NoReturn:
    """Carry out what the spool says. The process ends here."""
    job = spool.job()
    if job is None:
        sys.exit(f"{spool.path} has no spec.json")
    attempt = Attempt(spool, job)
    attempt.beat()
    attempt.listen()
    if spool.asked_to_stop():
        attempt.kill()
    attempt.finish(attempt.perform())


class Attempt:
    """What the task's thread, the heart and the one who listens for a kill share."""

    def __init__(self, spool: Spool, job: Job) -> None:
        self._spool = spool
        self._job = job
        self._started_at = datetime.now(UTC)
        self._ending = threading.Lock()

    def beat(self) -> None:
        """Show signs of life from now on."""
        self._spool.beat()
        threading.Thread(target=self._beat, name="heart", daemon=True).start()

    def listen(self) -> None:
        """Let SIGTERM end the attempt, whatever the main thread does: a Python handler would wait for it, this pipe does not."""
        readable, writable = os.pipe()
        os.set_blocking(writable, False)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda *_: None)
        threading.Thread(target=self._await_term, args=(readable,), name="kill", daemon=True).start()

    def perform(self) -> Ending:
        """Run the task. Never raises: what the task raises is its outcome, and its traceback goes to the log."""
        log.info("task %s of run %s started", self._job.spec.task.task_id, self._job.spec.run.run_id)
        try:
            returned = self._call()
        except SystemExit as stop:
            return _exited(stop.code)
        except SkipTask as skip:
            return Ending("skipped", str(skip))
        except blame.TaskError as error:
            return Ending("failed", str(error), error.exit_code)
        except BaseException as error:
            if not self._ending.locked():
                log.exception("the task raised")
            return Ending("failed", blame.from_exception(error, Path(self._job.dags_folder)))
        return kept(returned)

    def kill(self) -> NoReturn:
        self.finish(Ending("killed", "killed on request"))

    def finish(self, ending: Ending) -> NoReturn:
        """The first ending counts; whoever comes later waits here for the process to end."""
        if not self._ending.acquire(blocking=False):
            threading.Event().wait()
        try:
            self._end_what_runs(ending.outcome)
            log.info("task %s%s", ending.outcome, ending.reason and f": {ending.reason}")
            self._conclude(self._outcome(ending))
        except BaseException:
            log.exception("the runner failed")
        finally:
            # Threads and exit handlers of the task are not waited for.
            os._exit(0)

    def _outcome(self, ending: Ending) -> Outcome:
        chosen = ending.returned.task_ids if isinstance(ending.returned, Choice) else None
        return Outcome(
            outcome=ending.outcome,
            reason=storable(ending.reason),
            exit_code=ending.exit_code,
            started_at=self._started_at,
            finished_at=datetime.now(UTC),
            follow=chosen,
            result=ending.returned if chosen is None else None,
        )

    def _call(self) -> object:
        try:
            os.chdir(self._job.dags_folder)
        except OSError as error:
            raise blame.TaskError(f"the DAG folder {self._job.dags_folder} cannot be used: {error.strerror}") from error
        return kinds.load(self._job).run(self._job, self._job.spec.task, self._spool)

    def _end_what_runs(self, outcome: str) -> None:
        """The next try must meet nothing of this one, neither here nor on the server. After a success there is time for that."""
        if outcome != "succeeded":
            kinds.end(self._job)
        if left := end_all(self._spool.submission_id, KILL_GRACE_S if outcome == "killed" else LEFTOVER_GRACE_S):
            log.info("ended %d processes of the task", left)

    def _conclude(self, outcome: Outcome) -> None:
        """The file first, so that nothing is lost while the news travels."""
        try:
            mine = self._spool.end(outcome)
        except OSError:
            log.exception("the outcome could not be stored")
            mine = True
        if mine:
            announcement.task_finished(self._job, outcome)
        kinds.end(self._job)

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(self._job.heartbeat_s):
            self._spool.beat()

    def _await_term(self, readable: int) -> None:
        while signal.SIGTERM not in os.read(readable, 64):
            pass
        self.kill()


def _exited(code: object) -> Ending:
    """`sys.exit` in a function, as the interpreter would take it."""
    if code is None or code == 0:
        return Ending("succeeded", exit_code=0)
    return Ending("failed", f"SystemExit: {code}", code if isinstance(code, int) else 1)


def kept(returned: object) -> Ending:
    """A success with what was returned: JSON is kept for the tasks after it, anything else is not, and the log says so."""
    if returned is None or isinstance(returned, Choice):
        return Ending("succeeded", exit_code=0, returned=returned)
    try:
        content = msgspec.json.encode(returned)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        log.info("what it returned is no JSON and is not kept: %s", error)
        return Ending("succeeded", exit_code=0)
    if len(content) > MAX_RESULT_BYTES:
        reason = f"it returned {len(content)} bytes of JSON; at most {MAX_RESULT_BYTES} are kept for the tasks after it"
        return Ending("failed", f"{reason}: write them somewhere and return where")
    return Ending("succeeded", exit_code=0, returned=msgspec.json.decode(content))
