"""One attempt from claim to outcome. The first of task end, kill and lost contact decides the outcome."""

import logging
import os
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import msgspec

from tidegate.daemon.orphans import adopt_orphans
from tidegate.daemon.spark import event_file
from tidegate.daemon.spark.contact import Contact, beat_every_s
from tidegate.daemon.spark.contract import CallbackTask
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner import failure_reason, kinds, limits, secrets, spark_server, task_threads, termination
from tidegate.daemon.spark.runner.conclusion import conclude, exec_conclusion
from tidegate.daemon.spark.runner.execution import Execution
from tidegate.daemon.spark.runner.produced import with_events
from tidegate.daemon.spark.runner.redaction import Redaction, redact_log
from tidegate.daemon.spark.runner.task_outcome import exit_code_of, outcome_of
from tidegate.daemon.spark.spool import Job, Outcome, Spool
from tidegate.schemas.dag import FunctionTask, SqlTask

log = logging.getLogger("tidegate")

CONFIRMED_EVERY_S = 0.01

SPARE = 8
"""Descriptors that are kept for the end of a task that opens as many files as it may."""

UNASKED = "its runner got SIGTERM, as at a shutdown of its host; no kill was requested"

IN_VERSION = (FunctionTask, SqlTask, CallbackTask)
"""Tasks whose code and modules are in the version of their DAG."""


def execute(spool: Spool) -> NoReturn:
    """Run the attempt of the spool; the process exits here."""
    try:
        job = spool.job()
        if job is None:
            sys.exit(f"{spool.path} has no spec.json")
        job = event_file.complete(spool, job)
    except DamagedError as damage:
        spool.end(Outcome(outcome="failed", reason=str(damage), finished_at=datetime.now(UTC)))
        sys.exit(str(damage))
    attempt = Attempt(spool, job)
    attempt.beat()
    attempt.listen()
    adopt_orphans()  # Descent tells what belongs to the task where the stamp is gone from the environment.
    attempt.limit()
    attempt.await_confirmation()
    log.info("task %s of run %s started", job.spec.task.task_id, job.spec.run.run_id)
    attempt.finish(attempt.explained(attempt.perform()))


class Attempt:
    """State shared by the task's thread, the heartbeat thread and the kill thread."""

    def __init__(self, spool: Spool, job: Job) -> None:
        self._spool = spool
        self._job = job
        self._started_at = datetime.now(UTC)
        self._environ = dict(os.environ)
        self._cgroup = limits.own_cgroup(spool.submission_id)
        self._ending = threading.Lock()
        self._spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(SPARE)]
        self._contact = Contact(job.silent_s)
        self._is_confirmed = False
        self._redact = Redaction(job.spark_remote)
        redact_log(self._redact)

    def beat(self) -> None:
        """Start the heartbeat, and the watch over its contact: a spool that hangs stops the heartbeat, and not the watch."""
        self._contact.add(self._spool.beat())
        threading.Thread(target=self._beat, name="heart", daemon=True).start()
        threading.Thread(target=self._watch_contact, name="contact", daemon=True).start()

    def listen(self) -> None:
        """End the attempt on SIGTERM, or on a request to stop."""
        termination.listen(self.kill, self._spool.asked_to_stop)

    def limit(self) -> None:
        """Hold the task to its `resources`."""
        resources = self._job.spec.task.resources
        if resources is not None and resources.cpus is not None and self._cgroup is None:
            limits.bind_processors(resources.cpus)
        if resources is not None and resources.memory_mb is not None:
            memory = limits.MemoryLimit(self._spool.submission_id, resources.memory_mb)
            threading.Thread(target=self._watch, args=(memory,), name="memory", daemon=True).start()

    def await_confirmation(self) -> None:
        """Return when a daemon has recorded this runner. Until then the attempt may have ended for all daemons."""
        while not self._spool.is_confirmed():
            if self._spool.asked_to_stop():
                self.kill()
            time.sleep(CONFIRMED_EVERY_S)
        if self._spool.asked_to_stop():
            self.kill()
        self._is_confirmed = True

    def perform(self) -> Outcome:
        """Run the task. Never raises: an exception of the task becomes its outcome, with the traceback in the log.

        A process that the task has forked and that comes back here ends alone, as it would without a runner.
        """
        execution, pid = Execution.of(self._job, self._spool), os.getpid()
        outcome = with_events(self._perform(execution), execution.run)
        if os.getpid() != pid:
            os._exit(exit_code_of(outcome))
        return outcome

    def _perform(self, execution: Execution) -> Outcome:
        folder, server = Path(self._job.dags_folder), spark_server.connect_server(self._job)
        return outcome_of(lambda: self._call(execution), folder, self._report, server=server)

    def _report(self, error: BaseException) -> None:
        if not self._ending.locked():
            log.error("the task raised", exc_info=error)

    def explained(self, outcome: Outcome) -> Outcome:
        """Adds to a failure that the kernel ended a process of the task. `perform` may run in two processes, this in one."""
        if outcome.outcome != "failed" or self._cgroup is None or not limits.has_kernel_killed(self._cgroup):
            return outcome
        why = "the kernel ended a process of the task, which used more memory than its limit"
        return msgspec.structs.replace(outcome, reason=f"{outcome.reason}; {why}")

    def kill(self) -> NoReturn:
        """SIGTERM also comes from others than daemons, which leave a request first."""
        reason = "killed on request" if self._spool.asked_to_stop() else UNASKED
        self.finish(Outcome(outcome="killed", reason=reason))

    def finish(self, outcome: Outcome) -> NoReturn:
        """The first outcome counts; a later caller waits here for the process to exit."""
        if not self._ending.acquire(blocking=False):
            threading.Event().wait()
        try:
            termination.ignore_others()
            outcome = msgspec.structs.replace(outcome, started_at=self._started_at, reason=self._redact(outcome.reason))
            self._conclude(outcome)
        except BaseException as error:  # noqa: BLE001 - what a task can do to its process raises errors of any type
            self._conclude_apart(outcome, error)
        finally:
            # Exits without waiting for threads and exit handlers of the task. Without an outcome, a daemon reaps it.
            os._exit(0)

    def _conclude_apart(self, outcome: Outcome, error: BaseException) -> None:
        """In a program of its own, after an error: the task can have changed the log, the limits and the files of this one."""
        with suppress(BaseException):
            log.error("the runner failed; another program ends the task", exc_info=error)
        with suppress(BaseException):
            for descriptor in self._spare:
                os.close(descriptor)
            exec_conclusion(self._spool, outcome, self._environ)

    def _conclude(self, outcome: Outcome) -> None:
        """In a program of its own while threads of the task are left. Without that program an end by the task itself counts."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or task_threads.are_left():
            try:
                exec_conclusion(self._spool, outcome, self._environ)
            except OSError:
                if not is_main:
                    raise
                log.exception("threads of the task go on")
        conclude(self._spool, self._job, outcome, self._redact)

    def _call(self, execution: Execution) -> object:
        self._enter_folder()
        found = secrets.read_all(self._job)
        self._redact.hide(found.values())
        self._require_contact()  # The runner may have been frozen since a daemon confirmed it.
        return kinds.run(execution._replace(secrets=found))

    def _enter_folder(self) -> None:
        """Work in the DAG folder; where it is gone, a task whose code is in its version works among its temporary files."""
        try:
            os.chdir(self._job.dags_folder)
        except OSError as error:
            reason = f"the DAG folder {self._job.dags_folder} cannot be used: {error.strerror}"
            if not isinstance(self._job.spec.task, IN_VERSION):
                raise failure_reason.TaskError(reason) from error
            log.warning("%s; the task runs without it", reason)
            os.chdir(self._spool.work)

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(beat_every_s(self._job.heartbeat_s, self._job.silent_s)):
            with suppress(OSError):  # Without a spool the contact is lost in the end.
                self._contact.confirm(self._spool.confirmed_beat())
                self._contact.add(self._spool.beat())

    def _watch_contact(self) -> None:
        """Uses no file."""
        pause = threading.Event()
        while not pause.wait(min(self._contact.check_every_s, threading.TIMEOUT_MAX)):
            self._require_contact()

    def _require_contact(self) -> None:
        """End the attempt without contact: for the daemons it may have ended."""
        if (lost_s := self._contact.lost_s()) is not None:
            self.finish(self._without_contact(lost_s))

    def _without_contact(self, lost_s: float) -> Outcome:
        """A task that has not begun did not fail: its attempt may still be queued again, without a retry."""
        reason = f"no daemon of this host recorded a heartbeat for {lost_s:.0f} s"
        if self._is_confirmed:
            return Outcome(outcome="failed", reason=reason)
        return Outcome(outcome="killed", reason=f"{reason}; the task did not begin")

    def _watch(self, memory: limits.MemoryLimit) -> None:
        pause = threading.Event()
        while not pause.wait(limits.CHECK_EVERY_S):
            if (problem := memory.problem()) is not None:
                self.finish(Outcome(outcome="failed", reason=problem))
