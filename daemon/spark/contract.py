"""The contract of backends: eight idempotent calls.

The daemon owns the record of a job, not the job. It stores the intent, stamps the submission with its id, searches for the stamp
before another submit, and records the handle. After Flyte's connector contract.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

import msgspec

from tidegate.schemas.dag import BACKENDS, BaseTask, ModuleSource, TaskSpec, kind_of
from tidegate.schemas.notice import CallbackContext, LogExcerpt
from tidegate.schemas.run import RunContext
from tidegate.schemas.time_range import Moment
from tidegate.schemas.wire.event import DatasetUpdated, ExitCode, Follow

Handle = dict[str, Any]
"""The backend's reference to a submission; stored as JSON."""


class CallbackTask(BaseTask, frozen=True, kw_only=True, tag="callback"):
    """A call of the function `task_id` of the DAG file with a notification. Not a task of a run."""

    context: CallbackContext


class SubmissionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All inputs of one attempt. `submission_id` is its stamp. `source` is the DAG file at the run's version,
    `modules` are the modules of the DAG folder that it imports, and the applications of its tasks.

    `token` proves its end; empty for callbacks, whose ends are not published.
    `events_of` is the id of a run with too many events for `run.events`: the backend takes them from `events_file`.
    `earlier` are the last tries before this one that began: what they left on a server ends before the task begins.
    """

    submission_id: UUID
    token: str = ""
    try_number: int
    task: TaskSpec | CallbackTask
    run: RunContext
    dag_path: str
    source: str
    modules: tuple[ModuleSource, ...] = ()
    events_of: int | None = None
    events_file: str = ""
    earlier: tuple[UUID, ...] = ()


CALLBACK_BACKEND = "command"


def backend_of(task: BaseTask) -> str | None:
    """The backend of the task; None without one."""
    return CALLBACK_BACKEND if isinstance(task, CallbackTask) else BACKENDS.get(kind_of(task))


class Phase(StrEnum):
    """The state of a submission at its backend. `unknown`: it was never submitted, or its record was deleted.

    `lost`: it was killed, and its cluster has not confirmed that its work there has ended.
    """

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    KILLED = "killed"
    LOST = "lost"
    UNKNOWN = "unknown"


class AttemptEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about the end of an attempt. `reason` is one sentence for people.

    `follow`, `result`, `outlets`, `events` and `log` as in `tidegate.schemas.wire.event.TaskFinished`.
    """

    reason: str = ""
    exit_code: ExitCode | None = None
    started_at: Moment | None = None
    finished_at: Moment | None = None
    follow: Follow | None = None
    result: Any = None
    outlets: dict[str, dict[str, Any]] | None = None
    events: tuple[DatasetUpdated, ...] | None = None
    log: LogExcerpt | None = None

    def facts(self) -> dict[str, Any]:
        """The known fields of this class, by name, for any struct with the same fields."""
        return {name: value for name in AttemptEnd.__struct_fields__ if (value := getattr(self, name)) is not None}


class Status(AttemptEnd, frozen=True, kw_only=True):
    """The status of one submission. `heartbeat_age_s` is that of its last heartbeat by the clock of the host that wrote it,
    because the clocks of hosts differ; None without a heartbeat. `beat` names the heartbeat for `Backend.confirm`.
    """

    phase: Phase
    heartbeat_age_s: float | None = None
    beat: int | None = None


class LogChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a log from an offset. `next_offset` continues it; after a `complete` chunk nothing follows.

    `size` is that of the whole log so far.
    """

    content: bytes
    next_offset: int
    complete: bool
    size: int = 0


class Backend(Protocol):
    """One way to run tasks.

    No call raises for a submission that does not exist; all raise UnavailableError when the backend does not answer.
    """

    @property
    def name(self) -> str:
        """Stored with each submission; never changes."""

    @property
    def host(self) -> str | None:
        """The host whose daemons alone can see this backend's submissions; None when every daemon can."""

    @property
    def visibility_grace_s(self) -> float:
        """The time after a submit by a dead process during which `find` may miss it."""

    async def check(self) -> None:
        """Raises UnavailableError while this host can start no attempt, as far as that shows without one."""

    async def find(self, submission_id: UUID) -> Handle | None:
        """The handle of the submission with this stamp, running or ended; None without one."""

    async def submit(self, spec: SubmissionSpec) -> Handle:
        """Start the attempt, whose task waits for `confirm`. A second submit of the same id never runs it twice on one host.

        The backend has to ensure this: a daemon may be frozen between the check of its leases and the call.
        Raises RejectedError when the attempt can never start; its message becomes the reason of the failure. Raises
        NotStartedError only if nothing was started on this host and nothing will be: any host may claim the attempt then.
        """

    async def confirm(self, recorded: Mapping[UUID, int | None]) -> None:
        """The daemon has recorded these submissions as accepted, and this heartbeat of each.

        A task begins after the first confirmation: until then, a submission that another daemon has ended meanwhile runs no code.
        A process whose heartbeats are not confirmed for a while ends itself before other hosts retry its task. A backend without
        such processes ignores the call.
        """

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        """The status of each id, in one call. A submission with a damaged record has failed; the others are not affected."""

    async def running(self) -> Mapping[UUID, Handle]:
        """The submissions that run on this host, or may have left programs on it.

        The daemon ends what belongs to attempts that have ended for it.

        A handle has the `token` of the attempt if the backend knows it: it tells whether the installation is another one.

        Empty for a backend that runs nothing on the host of a daemon.
        """

    async def kill(self, handle: Handle) -> None:
        """Stop the attempt, by force if necessary. A later `status` confirms it.

        Raises UnavailableError while a cluster does not confirm that the work of the attempt there has ended.
        """

    async def logs(self, handle: Handle, offset: int) -> LogChunk:
        """The log from a byte offset. Raises DamagedError for a log that is no file any more."""
