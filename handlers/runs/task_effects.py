"""The effects that write task instances and attempts. They hold copies: later decisions may change the instances."""

from copy import copy
from datetime import datetime

from tidegate.handlers.tasks.attempt_end import excerpt_of
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.effect.submission import EndSubmission
from tidegate.schemas.effect.task import Dates, Demand, InsertTask, UpdateTask
from tidegate.schemas.state import TASK_ENDED, SubmissionState, TaskState
from tidegate.schemas.time_range import clamped
from tidegate.schemas.view import Instance, RunView, SubmissionView
from tidegate.schemas.wire.event import TaskFinished, storable

MAX_RANK = 2**31 - 1


def insert_task(run: RunView, instance: Instance, task: BaseTask, now: datetime) -> InsertTask:
    """The effect that inserts a task instance."""
    return InsertTask(run.id, task.task_id, run.order_at, copy(instance), demand(run, task), dates(instance.state, now))


def pool_of(run: RunView, task: BaseTask) -> str:
    """The pool of a task's instances: that of the backfill, if it has one."""
    return run.pool or task.pool


def demand(run: RunView, task: BaseTask) -> Demand:
    """The slots and limits of a task's instances, by which they are admitted."""
    rank = max(min(-(task.weight + run.priority), MAX_RANK), -MAX_RANK)
    return Demand(pool_of(run, task), task.pool_slots, rank, task.max_active_per_dag, task.max_active_per_run)


def update_task(run: RunView, instance: Instance, now: datetime) -> UpdateTask:
    """The effect that writes a changed task instance."""
    return UpdateTask(run.id, copy(instance), dates(instance.state, now))


def dates(state: TaskState, now: datetime) -> Dates:
    """The dates that a task instance gets with this state."""
    return Dates(now if state is TaskState.SCHEDULED else None, now if state in TASK_ENDED else None)


def end_reason(finish: TaskFinished, attempt: SubmissionView) -> str:
    """Why an attempt ended. A killed one ended for the reason of its kill, which its process does not know.

    Where its host or its cluster has not confirmed the end, that is said as well.
    """
    if not attempt.kill_reason or finish.outcome not in ("killed", "lost"):
        return storable(finish.reason)
    return storable(attempt.kill_reason if finish.outcome == "killed" else f"{attempt.kill_reason}; {finish.reason}")


def end_submission(finish: TaskFinished, attempt: SubmissionView, now: datetime) -> EndSubmission:
    """The effect that ends an attempt. An attempt that skips its task has succeeded. Any clock may have given its times."""
    outcome = "succeeded" if finish.outcome == "skipped" else finish.outcome
    log = excerpt_of(finish)
    return EndSubmission(
        finish.submission_id,
        SubmissionState(outcome),
        end_reason(finish, attempt),
        finish.exit_code,
        finish.started_at and clamped(finish.started_at),
        clamped(finish.finished_at or now),
        log.path if log else None,
        log.tail if log else None,
        attempt.backend,
    )
