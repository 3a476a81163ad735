"""States of runs, tasks and submissions, and the legal moves between them."""

from enum import StrEnum


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"


class RunType(StrEnum):
    DATASET = "dataset"
    MANUAL = "manual"


class TaskState(StrEnum):
    NONE = "none"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    UPSTREAM_FAILED = "upstream_failed"
    UP_FOR_RETRY = "up_for_retry"


class SubmissionState(StrEnum):
    """What is known of one attempt on its backend.

    `intent`: to be submitted, nothing was tried. `submitting`: a submit may be under way. `accepted`: its handle is
    recorded.
    """

    INTENT = "intent"
    SUBMITTING = "submitting"
    ACCEPTED = "accepted"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    LOST = "lost"


RUN_MOVES: frozenset[tuple[RunState | None, RunState]] = frozenset(
    {
        (None, RunState.QUEUED),
        (RunState.QUEUED, RunState.RUNNING),
        (RunState.RUNNING, RunState.SUCCESS),
        (RunState.RUNNING, RunState.FAILED),
    }
)

TASK_MOVES: frozenset[tuple[TaskState, TaskState]] = frozenset(
    {
        (TaskState.NONE, TaskState.SCHEDULED),
        (TaskState.NONE, TaskState.SUCCESS),  # an empty task
        (TaskState.NONE, TaskState.UPSTREAM_FAILED),
        (TaskState.SCHEDULED, TaskState.QUEUED),
        (TaskState.QUEUED, TaskState.RUNNING),
        (TaskState.QUEUED, TaskState.SUCCESS),  # the finish may overtake the news of the start
        (TaskState.QUEUED, TaskState.FAILED),
        (TaskState.QUEUED, TaskState.UP_FOR_RETRY),
        (TaskState.RUNNING, TaskState.SUCCESS),
        (TaskState.RUNNING, TaskState.FAILED),
        (TaskState.RUNNING, TaskState.UP_FOR_RETRY),
        (TaskState.UP_FOR_RETRY, TaskState.QUEUED),
    }
)

RUN_ENDED = frozenset({RunState.SUCCESS, RunState.FAILED})
TASK_ENDED = frozenset({TaskState.SUCCESS, TaskState.FAILED, TaskState.UPSTREAM_FAILED})
TASK_ACTIVE = frozenset({TaskState.QUEUED, TaskState.RUNNING})
SUBMISSION_OPEN = frozenset({SubmissionState.INTENT, SubmissionState.SUBMITTING, SubmissionState.ACCEPTED})
