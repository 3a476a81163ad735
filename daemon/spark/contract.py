"""The five calls every backend answers, all of them idempotent.

The daemon owns the record of a job, never the job: it stores the intent, stamps the submission with its id, looks for the stamp
before it submits anything a second time, and records the handle. After Flyte's connector contract.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

import msgspec

from tidegate.schemas.dag import BACKENDS, BaseTask, TaskSpec, kind_of
from tidegate.schemas.notice import CallbackContext
from tidegate.schemas.run import RunContext

Handle = dict[str, Any]
"""What a backend needs to find a submission again; stored as JSON."""


class CallbackTask(BaseTask, frozen=True, kw_only=True, tag="callback"):
    """The function of the DAG file that is called `task_id` is told what happened. Not a part of any run."""

    context: CallbackContext


class SubmissionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything needed to run one attempt. `submission_id` is its stamp. `source` is the DAG file at the run's version."""

    submission_id: UUID
    try_number: int
    task: TaskSpec | CallbackTask
    run: RunContext
    dag_path: str
    source: str


CALLBACK_BACKEND = "command"


def backend_of(task: BaseTask) -> str | None:
    """The backend that runs it; None where there is none."""
    return CALLBACK_BACKEND if isinstance(task, CallbackTask) else BACKENDS.get(kind_of(task))


class Phase(StrEnum):
    """What a backend knows of a submission. `unknown`: it never heard of it, or has forgotten it."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    KILLED = "killed"
    UNKNOWN = "unknown"


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A backend's answer about one submission. `reason` is for people; `silent_s` is how long ago its last sign of
    life was, if there was any, by the clock that the sign is of: the clocks of hosts differ.

    `follow` and `result` as in `tidegate.schemas.wire.event.TaskFinished`.
    """

    phase: Phase
    reason: str = ""
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    silent_s: float | None = None
    follow: tuple[str, ...] | None = None
    result: Any = None


class LogChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a log from an offset on. `next_offset` continues it; `complete` says that nothing will follow."""

    content: bytes
    next_offset: int
    complete: bool


class Backend(Protocol):
    """One way to run tasks.

    No call raises for a submission that does not exist; all raise UnavailableError when the backend is away.
    """

    @property
    def name(self) -> str:
        """Stored with each submission; never changes."""

    @property
    def host(self) -> str | None:
        """The host whose daemons alone can see this backend's submissions; None when every daemon can."""

    @property
    def visibility_grace_s(self) -> float:
        """How long after a submit by a process that died `find` may still miss it."""

    async def find(self, submission_id: UUID) -> Handle | None:
        """The handle of the submission with this stamp, running or ended; None where there is none."""

    async def submit(self, spec: SubmissionSpec) -> Handle:
        """Start it. Submitting the same id again never makes it run twice at the same time on one host.

        That is for a backend to see to: no daemon can look at its leases and call in one moment, and it may be frozen in between.
        Raises RejectedError when this can never be started; the reason is the task's.
        """

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        """The state of many at once; every id that was asked for is in the answer."""

    async def kill(self, handle: Handle) -> None:
        """Ask it to stop, escalating until it does. Confirmed by a later `status`."""

    async def logs(self, handle: Handle, offset: int) -> LogChunk:
        """Its log from a byte offset on."""
