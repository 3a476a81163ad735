"""The daemon warns of each failed attempt, and of each error of a DAG file once."""

from collections.abc import Sequence
from typing import Any

from structlog.testing import capture_logs

from tests.shapes import NOW
from tidegate.daemon.decision_log import DecisionLog, noted
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import ClearImportError, NoteSchedule, RecordAwaitedError, RecordImportError, SetPaused
from tidegate.schemas.effect.task import TaskMoved
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.wire.event import TaskStateChanged

LOG = LogExcerpt(host="h1", path="/spool/1/log", tail="")


def moved(state: str, try_number: int = 1, **facts: Any) -> TaskMoved:
    event = TaskStateChanged(
        dag_id="d", run_id="r", task_id="load", try_number=try_number, seq=1, state=state, at=NOW, reason="no rows", **facts
    )
    return TaskMoved(1, event)


def logged(*effects: Effect, by: DecisionLog | None = None) -> Sequence[Any]:
    with capture_logs() as lines:
        (by or DecisionLog()).report(noted(effects))
    return lines


def test_each_failed_attempt_is_one_line() -> None:
    lines = logged(moved("running"), moved("up_for_retry", map_index=3), moved("failed", 2, log=LOG), moved("success"))

    attempt = {"event": "attempt_failed", "log_level": "warning", "dag_id": "d", "run_id": "r", "reason": "no rows"}
    assert lines == [
        {**attempt, "task_id": "load[3]", "try_number": 1, "follows": "another try"},
        {**attempt, "task_id": "load", "try_number": 2, "follows": "none", "log_host": "h1", "log_path": "/spool/1/log"},
    ]


def test_a_task_that_fails_without_an_attempt_is_none() -> None:
    assert logged(moved("failed", 0), moved("upstream_failed"), SetPaused("d", is_paused=True)) == []


def test_a_broken_file_is_one_line_until_its_error_changes_or_it_was_mended() -> None:
    log, broken = DecisionLog(), RecordImportError("a.py", 3, "invalid syntax")

    lines = [len(logged(effect, by=log)) for effect in (broken, broken, RecordImportError("a.py", 4, "no name x"))]
    again = [len(logged(effect, by=log)) for effect in (broken, ClearImportError("a.py"), broken, broken)]

    assert (lines, again) == ([1, 0, 1], [1, 0, 1, 0])
    assert logged(broken) == [
        {"event": "dag_file_broken", "log_level": "warning", "path": "a.py", "line": 3, "reason": "invalid syntax"}
    ]


def test_a_file_that_is_being_parsed_is_not_broken_and_leaves_the_last_error_as_it_was() -> None:
    log, broken, awaited = (
        DecisionLog(),
        RecordImportError("a.py", 3, "x"),
        RecordAwaitedError("a.py", None, "it is being parsed"),
    )

    assert [len(logged(effect, by=log)) for effect in (awaited, broken, awaited, broken)] == [0, 1, 0, 0]


def test_a_missed_deadline_of_inputs_is_a_line_and_other_notes_are_none() -> None:
    missed, unmet = (NoteSchedule("d", kind, "no flights", NOW) for kind in ("deadline_skip", "tick_unmet"))

    assert [(line["event"], line["fallback"]) for line in logged(missed, unmet)] == [("inputs_missed_deadline", "skip")]
