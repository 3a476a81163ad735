"""States of runs, tasks and submissions, and the legal moves between them."""

from collections.abc import Iterable, Iterator, Mapping, Set
from enum import StrEnum
from typing import Annotated, TypeVar

from msgspec import Meta


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"


class RunType(StrEnum):
    """What made a run."""

    SCHEDULED = "scheduled"
    DATASET = "dataset"
    MANUAL = "manual"
    BACKFILL = "backfill"


class TaskState(StrEnum):
    """`none`: its turn has not come. `removed`: not a part of this run. The others are Airflow's."""

    NONE = "none"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    UPSTREAM_FAILED = "upstream_failed"
    UP_FOR_RETRY = "up_for_retry"
    REMOVED = "removed"


class SubmissionState(StrEnum):
    """The recorded state of an attempt.

    `intent`: no submit was tried. `submitting`: a submit may have happened. `accepted`: the handle of the backend is recorded.
    """

    INTENT = "intent"
    SUBMITTING = "submitting"
    ACCEPTED = "accepted"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    LOST = "lost"


class KillCause(StrEnum):
    """Why an attempt is killed, which decides what its end means for its task.

    `stopped`: the end of the attempt is that of the task, if the task still waits for it. `timed_out`: the same, and receivers
    of timeouts are notified. `cleared`: the task waits again. `not_submitted`: the task is queued again, within limits.
    """

    STOPPED = "stopped"
    TIMED_OUT = "timed_out"
    CLEARED = "cleared"
    NOT_SUBMITTED = "not_submitted"


class BackfillState(StrEnum):
    """`planned`: none of its dates was planned yet. `cancelling`: it waits for the ends of its runs."""

    PLANNED = "planned"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    SUCCESS = "success"
    FAILED = "failed"


class DateState(StrEnum):
    """What became of a date of a backfill.

    `open`: its run has not ended. `retry`: its failed run is to run again. `skipped`: it has no run, and a reason. `cancelled`:
    the backfill ended its run before the run could end by itself.
    """

    OPEN = "open"
    RETRY = "retry"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


def listing(names: Iterable[str]) -> Meta:
    """What JSON Schemas say of a text that is one of these."""
    return Meta(extra_json_schema={"enum": list(map(str, names))})


RunStateName = Annotated[str, listing(RunState)]
RunTypeName = Annotated[str, listing(RunType)]
TaskStateName = Annotated[str, listing(TaskState)]
SubmissionStateName = Annotated[str, listing(SubmissionState)]
"""The names in rows of lists, which stay texts: a page has thousands. JSON Schemas list them."""


INACTIVE = ("paused", "stale", "held")
"""The states of a DAG in which no run of it starts."""

InactiveName = Annotated[str, listing(INACTIVE)]


RUN_ENDED = frozenset({RunState.SUCCESS, RunState.FAILED})
TASK_ENDED = frozenset({TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED, TaskState.REMOVED})
TASK_ACTIVE = frozenset({TaskState.QUEUED, TaskState.RUNNING})
"""The task has an open attempt and occupies slots of its pool."""

TASK_FAILED = frozenset({TaskState.FAILED, TaskState.UPSTREAM_FAILED})
SUBMISSION_OPEN = frozenset({SubmissionState.INTENT, SubmissionState.SUBMITTING, SubmissionState.ACCEPTED})
BACKFILL_ENDED = frozenset({BackfillState.CANCELLED, BackfillState.SUCCESS, BackfillState.FAILED})
BACKFILL_STARTS = frozenset({BackfillState.PLANNED, BackfillState.RUNNING})
"""The backfill plans dates and starts runs."""


def run_state(unfinished: int, failed_leaves: int) -> RunState:
    """The state of a started run. Once no task is unfinished, its leaves decide."""
    if unfinished:
        return RunState.RUNNING
    return RunState.FAILED if failed_leaves else RunState.SUCCESS


State = TypeVar("State", bound=StrEnum)


def _pairs(moves: Mapping[State, Set[State]]) -> Iterator[tuple[State, State]]:
    for before, afters in moves.items():
        yield from ((before, after) for after in afters)


RUN_MOVES: frozenset[tuple[RunState | None, RunState]] = frozenset(
    {
        (None, RunState.QUEUED),
        *_pairs(
            {
                RunState.QUEUED: RUN_ENDED | {RunState.RUNNING},  # ended by a user before it started
                RunState.RUNNING: RUN_ENDED,
                RunState.SUCCESS: {RunState.QUEUED, RunState.FAILED},  # cleared; marked otherwise
                RunState.FAILED: {RunState.QUEUED, RunState.SUCCESS},
            }
        ),
    }
)

TASK_MOVES: frozenset[tuple[TaskState, TaskState]] = frozenset(
    _pairs(
        {
            # An empty task ends when it is ready; a mapped task that cannot be expanded fails then; a user may mark any task.
            TaskState.NONE: TASK_ENDED | {TaskState.SCHEDULED},
            # The run may end while the task waits for a slot or for its next try.
            TaskState.SCHEDULED: (TASK_ENDED - {TaskState.UPSTREAM_FAILED}) | {TaskState.QUEUED, TaskState.NONE},
            TaskState.UP_FOR_RETRY: (TASK_ENDED - {TaskState.UPSTREAM_FAILED}) | {TaskState.SCHEDULED, TaskState.NONE},
            # `task_finished` may arrive before `submission_accepted`. An attempt that was not submitted in time is killed, and
            # its task returns to `scheduled`. A task that was cleared while active returns to `none` once its attempt was killed.
            TaskState.QUEUED: (TASK_ENDED - {TaskState.UPSTREAM_FAILED})
            | {TaskState.RUNNING, TaskState.UP_FOR_RETRY, TaskState.SCHEDULED, TaskState.NONE},
            TaskState.RUNNING: (TASK_ENDED - {TaskState.UPSTREAM_FAILED}) | {TaskState.UP_FOR_RETRY, TaskState.NONE},
            # Cleared, or marked by a user.
            **{ended: {TaskState.NONE, TaskState.SUCCESS, TaskState.FAILED, TaskState.REMOVED} - {ended} for ended in TASK_ENDED},
        }
    )
)
