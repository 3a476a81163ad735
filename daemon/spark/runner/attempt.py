"""One attempt from claim to outcome. Whichever ends it first, the task or a kill, decides how it ended."""

import logging
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NoReturn

from tidegate.daemon.spark.job import Job, Outcome
from tidegate.daemon.spark.process import end_all
from tidegate.daemon.spark.runner import announcement, blame, kinds
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.event import storable

log = logging.getLogger("tidegate")

LEFTOVER_GRACE_S = 1.0
KILL_GRACE_S = 5.0

Ending = tuple[Literal["succeeded", "failed", "killed"], str, int | None]
"""Outcome, reason, exit code."""


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
            self._call()
        except SystemExit as stop:
            return _exited(stop.code)
        except blame.TaskError as error:
            return "failed", str(error), error.exit_code
        except BaseException as error:
            if not self._ending.locked():
                log.exception("the task raised")
            return "failed", blame.from_exception(error, Path(self._job.dags_folder)), None
        return "succeeded", "", 0

    def kill(self) -> NoReturn:
        self.finish(("killed", "killed on request", None))

    def finish(self, ending: Ending) -> NoReturn:
        """The first ending counts; whoever comes later waits here for the process to end."""
        if not self._ending.acquire(blocking=False):
            threading.Event().wait()
        outcome, reason, exit_code = ending
        try:
            self._end_what_runs(outcome)
            log.info("task %s%s", outcome, reason and f": {reason}")
            self._conclude(
                Outcome(
                    outcome=outcome,
                    reason=storable(reason),
                    exit_code=exit_code,
                    started_at=self._started_at,
                    finished_at=datetime.now(UTC),
                )
            )
        except BaseException:
            log.exception("the runner failed")
        finally:
            # Threads and exit handlers of the task are not waited for.
            os._exit(0)

    def _call(self) -> None:
        try:
            os.chdir(self._job.dags_folder)
        except OSError as error:
            raise blame.TaskError(f"the DAG folder {self._job.dags_folder} cannot be used: {error.strerror}") from error
        kinds.load(self._job).run(self._job, self._job.spec.task, self._spool)

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
        return "succeeded", "", 0
    return "failed", f"SystemExit: {code}", code if isinstance(code, int) else 1
