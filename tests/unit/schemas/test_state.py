"""The states and the moves between them fit together."""

from collections.abc import Iterable

import pytest

from tidegate.schemas.state import (
    RUN_ENDED,
    RUN_MOVES,
    SUBMISSION_OPEN,
    TASK_ACTIVE,
    TASK_ENDED,
    TASK_MOVES,
    RunState,
    SubmissionState,
    TaskState,
)


def reachable(start: object, moves: Iterable[tuple[object, object]]) -> set[object]:
    moves = list(moves)
    seen = {start}
    while found := {after for before, after in moves if before in seen} - seen:
        seen |= found
    return seen


def test_every_state_of_a_run_can_be_reached() -> None:
    assert reachable(None, RUN_MOVES) == {None, *RunState}


def test_every_state_of_a_task_can_be_reached() -> None:
    assert reachable(TaskState.NONE, TASK_MOVES) == set(TaskState)


@pytest.mark.parametrize(
    ("ended", "moves", "states"),
    [
        pytest.param(RUN_ENDED, RUN_MOVES, RunState, id="runs"),
        pytest.param(TASK_ENDED, TASK_MOVES, TaskState, id="tasks"),
    ],
)
def test_nothing_follows_an_end_and_only_an_end(
    ended: frozenset[object], moves: frozenset[tuple[object, object]], states: type[RunState | TaskState]
) -> None:
    final = set(states) - {before for before, _ in moves}

    assert final == ended


def test_what_takes_a_slot_is_not_over() -> None:
    assert TASK_ACTIVE.isdisjoint(TASK_ENDED)


def test_an_attempt_is_open_until_its_outcome_is_known() -> None:
    outcomes = {SubmissionState.SUCCEEDED, SubmissionState.FAILED, SubmissionState.KILLED, SubmissionState.LOST}

    assert set(SubmissionState) - SUBMISSION_OPEN == outcomes
