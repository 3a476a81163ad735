"""Warnings of the daemon about failed attempts, broken DAG files and missed deadlines of inputs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

from tidegate.schemas.effect.dag import ClearImportError, NoteSchedule, RecordImportError
from tidegate.schemas.effect.task import TaskMoved
from tidegate.schemas.state import TaskState
from tidegate.schemas.wire.event import TaskStateChanged

log = structlog.get_logger()

Noted = NoteSchedule | TaskMoved | RecordImportError | ClearImportError
"""The effects that can be worth a warning."""

FALLBACKS = {"deadline_run": "run_anyway", "deadline_skip": "skip", "deadline_alert": "alert"}
"""Schedule notes to log, with the fallback that was applied; `tidegate dags why-not` shows the others."""

FAILURES = frozenset({TaskState.FAILED, TaskState.UP_FOR_RETRY})


NOTED: Mapping[type, Callable[[Any], bool]] = {
    TaskMoved: lambda moved: moved.event.state in FAILURES and moved.event.try_number > 0,
    NoteSchedule: lambda note: note.kind in FALLBACKS,
    RecordImportError: lambda _: True,
    ClearImportError: lambda _: True,
}
"""Whether an effect of exactly this type is logged. A task that fails without an attempt has try 0: the tasks that it failed for
are logged. A `RecordAwaitedError` is not: its file is still being parsed, and may be good."""


def noted(effects: Iterable[Any]) -> tuple[Noted, ...]:
    """The effects to log."""
    return tuple(effect for effect in effects if (is_noted := NOTED.get(type(effect))) and is_noted(effect))


class DecisionLog:
    """One line for each failed attempt, and for each error of a DAG file, however often the file is parsed."""

    def __init__(self) -> None:
        self._broken: dict[str, str] = {}

    def report(self, effects: Iterable[Noted]) -> None:
        for effect in effects:
            match effect:
                case TaskMoved(_, event):
                    log.warning("attempt_failed", **_facts(event))
                case NoteSchedule(dag_id, kind, reason):
                    log.warning("inputs_missed_deadline", dag_id=dag_id, fallback=FALLBACKS[kind], reason=reason)
                case RecordImportError():
                    self._broke(effect)
                case ClearImportError(path):
                    self._broken.pop(path, None)

    def _broke(self, error: RecordImportError) -> None:
        if self._broken.get(error.path) != error.reason:
            log.warning("dag_file_broken", path=error.path, line=error.line, reason=error.reason)
        self._broken[error.path] = error.reason


def _facts(event: TaskStateChanged) -> dict[str, Any]:
    known = {"dag_id": event.dag_id, "run_id": event.run_id, "task_id": event.label, "try_number": event.try_number}
    follows = "another try" if event.state == TaskState.UP_FOR_RETRY else "none"
    where = {"log_host": event.log.host, "log_path": event.log.path} if event.log else {}
    return {**known, "reason": event.reason, "follows": follows, **where}
