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
    run_state,
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
    ("ended", "moves", "again"),
    [
        pytest.param(RUN_ENDED, RUN_MOVES, RunState.QUEUED, id="runs"),
        pytest.param(TASK_ENDED, TASK_MOVES, TaskState.NONE, id="tasks"),
    ],
)
def test_an_end_is_final_until_a_user_begins_anew_or_marks_it_otherwise(
    ended: frozenset[object], moves: frozenset[tuple[object, object]], again: object
) -> None:
    follows = {after for before, after in moves if before in ended}

    assert follows - ended == {again}


@pytest.mark.parametrize(
    ("moves", "marks"),
    [
        pytest.param(RUN_MOVES, {RunState.SUCCESS, RunState.FAILED}, id="runs"),
        pytest.param(TASK_MOVES, {TaskState.SUCCESS, TaskState.FAILED, TaskState.REMOVED}, id="tasks"),
    ],
)
def test_what_ended_is_marked_as_nothing_but_success_or_failed_or_set_aside(
    moves: frozenset[tuple[object, object]], marks: frozenset[object]
) -> None:
    ended = RUN_ENDED | TASK_ENDED

    assert {after for before, after in moves if before in ended and after in ended} == marks


@pytest.mark.parametrize(
    ("ended", "moves", "states"),
    [
        pytest.param(RUN_ENDED, RUN_MOVES, RunState, id="runs"),
        pytest.param(TASK_ENDED, TASK_MOVES, TaskState, id="tasks"),
    ],
)
def test_whatever_is_not_over_may_end(
    ended: frozenset[object], moves: frozenset[tuple[object, object]], states: type[RunState | TaskState]
) -> None:
    may_end = {before for before, after in moves if after in ended}

    assert set(states) - ended <= may_end


def test_no_move_leads_to_where_it_began() -> None:
    assert [move for move in (*RUN_MOVES, *TASK_MOVES) if move[0] is move[1]] == []


def test_what_takes_a_slot_is_not_over() -> None:
    assert TASK_ACTIVE.isdisjoint(TASK_ENDED)


def test_an_attempt_is_open_until_its_outcome_is_known() -> None:
    outcomes = {SubmissionState.SUCCEEDED, SubmissionState.FAILED, SubmissionState.KILLED, SubmissionState.LOST}

    assert set(SubmissionState) - SUBMISSION_OPEN == outcomes


@pytest.mark.parametrize(
    ("unfinished", "failed_leaves", "state"),
    [
        (1, 0, RunState.RUNNING),
        (1, 1, RunState.RUNNING),
        (0, 0, RunState.SUCCESS),
        (0, 1, RunState.FAILED),
    ],
)
def test_the_leaves_decide_the_run_once_nothing_is_unfinished(unfinished: int, failed_leaves: int, state: RunState) -> None:
    assert run_state(unfinished, failed_leaves) is state
