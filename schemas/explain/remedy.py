"""Changes that open closed gates: what lets a task run, or makes a run, in words and as commands."""

import shlex
from datetime import datetime
from typing import ClassVar

from tidegate.schemas.error import DUTY
from tidegate.schemas.explain.worded import Worded
from tidegate.schemas.text import utc


class Change(Worded, frozen=True):
    """A way to open a closed gate. The fields are filled into `words`, and into `command`, which follows `tidegate`."""

    command: ClassVar[tuple[str, ...]] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The shell commands that make the change; empty where no command can."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return (_shell(*(word.format(**fields) for word in self.command)),) if self.command else ()


class Unpause(Change, frozen=True, tag="unpause"):
    """Unpause the DAG."""

    dag_id: str
    words = "unpause the DAG"
    command = ("dags", "unpause", "{dag_id}")


class Release(Change, frozen=True, tag="release"):
    """Change the DAG file at `path`, which releases the DAG, or release it by a command."""

    dag_id: str
    path: str
    words = "correct {path}, or release the DAG once the cause is gone; it is held again if the fault is still there"
    command = ("dags", "release", "{dag_id}")


class CancelRuns(Change, frozen=True, tag="cancel_runs"):
    """Cancel these unfinished runs of earlier versions of a held DAG, which works without reading their versions."""

    dag_id: str
    runs: tuple[str, ...]

    @property
    def text(self) -> str:
        return (
            f"cancel {' and '.join(self.runs)}, whose version is not the current one, if that is the fault; then release the DAG"
        )

    @property
    def commands(self) -> tuple[str, ...]:
        cancels = (_shell("runs", "cancel", self.dag_id, run_id) for run_id in self.runs)
        return (*cancels, _shell("dags", "release", self.dag_id))


class RestoreFile(Change, frozen=True, tag="restore_file"):
    """Put the DAG into a DAG file again. It was in `path`."""

    dag_id: str
    path: str
    words = "put {dag_id} into a DAG file again; it was in {path}"


class Wait(Change, frozen=True, tag="wait"):
    """Wait until this time; None: for a moment."""

    until: datetime | None

    @property
    def text(self) -> str:
        return "wait a moment" if self.until is None else f"wait until {utc(self.until)}"


class EndTransaction(Change, frozen=True, tag="end_transaction"):
    """End the transaction of another session."""

    pid: int
    words = "end the transaction of that session, or the session: SELECT pg_terminate_backend({pid})"


class RaiseRuns(Change, frozen=True, tag="raise_max_active_runs"):
    """Raise `max_active_runs` of the DAG to `limit`, or end as many of `runs` as it is raised by."""

    dag_id: str
    path: str
    limit: int
    runs: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"raise max_active_runs to {self.limit} in {self.path}{_or_end(self.runs)}"


class SetSlots(Change, frozen=True, tag="set_slots"):
    """Give the pool `slots` slots, or let some of `tasks`, which occupy it, end."""

    pool: str
    slots: int
    tasks: tuple[str, ...] = ()
    command = ("pools", "set", "{pool}", "{slots}")

    @property
    def text(self) -> str:
        return f"give pool {self.pool!r} {self.slots} {'slot' if self.slots == 1 else 'slots'}{_or_end(self.tasks)}"


class EndTasks(Change, frozen=True, tag="end_tasks"):
    """End `count` of `tasks`, given as (DAG, run, task). The limit is fixed for existing runs."""

    limit: str
    count: int
    tasks: tuple[tuple[str, str, str], ...]

    @property
    def text(self) -> str:
        names, them = ", ".join(map(" ".join, self.tasks)), "it" if self.count == 1 else "them"
        return f"let {self.count} of {names} end, or end {them}; {self.limit} is fixed for existing runs"

    @property
    def commands(self) -> tuple[str, ...]:
        """A single instance of a mapped task cannot be marked."""
        return tuple(_shell("tasks", "mark", *task, "success") for task in self.tasks if not task[-1].endswith("]"))


class ResumeBackfill(Change, frozen=True, tag="resume_backfill"):
    """Resume the backfill."""

    backfill_id: int
    words = "resume backfill {backfill_id}"
    command = ("backfills", "resume", "{backfill_id}")


class SetBackfill(Change, frozen=True, tag="set_backfill"):
    """Give a limit of the backfill this value, or let a task or a run of it end."""

    backfill_id: int
    limit: str
    value: int
    words = "raise {limit} of backfill {backfill_id} to {value}, or wait for its other tasks to end"

    @property
    def commands(self) -> tuple[str, ...]:
        option = f"--{self.limit.replace('_', '-')}"
        return (_shell("backfills", "set", str(self.backfill_id), option, str(self.value)),)


class SetParallelism(Change, frozen=True, tag="set_parallelism"):
    """Raise the parallelism of the installation to `limit`, or let an active task end."""

    limit: int
    words = "start the daemons with TIDEGATE_PARALLELISM={limit}, or let a task end"


class EndUpstream(Change, frozen=True, tag="end_upstream"):
    """Let these tasks of the run end: the first that everything downstream waits for."""

    dag_id: str
    run_id: str
    tasks: tuple[str, ...]
    words = "let {tasks} of {run_id} end; ask for each why it does not run"

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(_shell("tasks", "why-not", self.dag_id, self.run_id, task) for task in self.tasks)


class Clear(Change, frozen=True, tag="clear"):
    """Clear these tasks of the run."""

    dag_id: str
    run_id: str
    tasks: tuple[str, ...]
    words = "clear {tasks} of {run_id}"

    @property
    def commands(self) -> tuple[str, ...]:
        return (_shell("tasks", "clear", self.dag_id, self.run_id, *self.tasks, "--yes"),)


class StartDaemon(Change, frozen=True, tag="start_daemon"):
    """Start a daemon."""

    words = "start a daemon"
    command = ("daemon",)


class AddCluster(Change, frozen=True, tag="add_cluster"):
    """Tell one of these hosts the address of the cluster."""

    cluster: str
    address: str
    hosts: tuple[str, ...]

    @property
    def text(self) -> str:
        where = f"add cluster {self.cluster!r} with its {self.address} to TIDEGATE_SPARK_CLUSTERS of {' or '.join(self.hosts)}"
        return f"{where}, and restart its daemon"


class RestoreServer(Change, frozen=True, tag="bring_back"):
    """Restore the server, or the network between the daemons and it; report the failure of a duty."""

    server: str

    @property
    def text(self) -> str:
        if self.server.startswith(DUTY):
            return f"report the cause, which the log of the daemon has as duty_failed; {self.server} starts again by itself"
        return f"restore {self.server}, or the way to it"


class Publish(Change, frozen=True, tag="publish"):
    """Publish an event of each of `inputs`, which makes the condition hold. Those in `uris` have no filter."""

    inputs: tuple[str, ...]
    uris: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"publish an event of {' and of '.join(self.inputs)}"

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(_shell("datasets", "publish", uri) for uri in self.uris)


class CorrectCondition(Change, frozen=True, tag="mend_file"):
    """Correct the condition in the DAG file."""

    path: str
    words = "correct the condition in {path}"


class Resume(Change, frozen=True, tag="resume"):
    """Resume these partitions at a new offset."""

    partitions: tuple[str, ...]
    words = "resume these partitions at an offset"

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(_shell("topics", "resume", partition, "--at", "earliest") for partition in self.partitions)


class EndRun(Change, frozen=True, tag="end_run"):
    """Let one of these runs of the DAG end."""

    dag_id: str
    runs: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"let {' or '.join(self.runs)} end"


class Trigger(Change, frozen=True, tag="trigger"):
    """Trigger a run."""

    dag_id: str
    words = "trigger a run"
    command = ("runs", "trigger", "{dag_id}")


def _or_end(names: tuple[str, ...]) -> str:
    return f", or let {' or '.join(names)} end" if names else ""


def _shell(*words: str) -> str:
    return shlex.join(("tidegate", *words))
