"""The stages that a run has reached."""

from datetime import datetime, timedelta
from typing import Any

from tests.shapes import NOW
from tidegate.handlers.explain.stages import completing, stages
from tidegate.schemas.queries.run_pages import ConsumedEventRow, Origin, Steps


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def origin(**facts: Any) -> Origin:
    """A new run, but for the facts given."""
    usual: dict[str, Any] = dict.fromkeys(Origin.__struct_fields__)
    return Origin(**{**usual, "id": 1, "run_after": at(0), "created_at": at(3), "version": 1, **facts})


def event(number: int, occurred: float, arrived: float) -> ConsumedEventRow:
    return ConsumedEventRow(number, "s://a", "p", str(number), at(occurred), at(arrived), {})


def steps(*moments: float | None) -> Steps:
    """An attempt with the times of its steps: ready, admitted, submitted, started, ended."""
    turn, admitted, submitted, started, ended = [None if moment is None else at(moment) for moment in moments]
    return Steps("a", 1, turn, admitted or NOW, submitted, started, ended, "accepted", "h")


FORGOTTEN = ConsumedEventRow(7, None, None, None, None, None, None)


def test_every_stage_has_its_duration() -> None:
    run = origin(start_date=at(4), end_date=at(20))
    attempts = [steps(4, 6, 7, 9, 15), steps(4, 5, 8, 8.5, 16)]

    found = stages(run, [event(1, 0, 1), event(2, 0.5, 2)], attempts)

    assert [(stage.name, stage.at, stage.took_s) for stage in found] == [
        ("the last event occurred", at(0.5), None),
        ("it arrived", at(2), 1.5),
        ("the run was created", at(3), 1),
        ("the run started", at(4), 1),
        ("first task ready", at(4), 0),
        ("first task admitted", at(5), 1),
        ("first task submitted", at(7), 2),
        ("first task started", at(8.5), 1.5),
        ("first task ended", at(15), 6.5),
        ("the run ended", at(20), 5),
    ]


def test_a_timed_run_begins_when_it_was_due() -> None:
    found = stages(origin(logical_date=at(-9), start_date=at(4)), [], [])

    assert [(stage.name, stage.took_s) for stage in found] == [
        ("the run was due", None),
        ("the run was created", 3),
        ("the run started", 1),
    ]


def test_a_manual_run_begins_when_it_was_created() -> None:
    assert [stage.name for stage in stages(origin(), [], [])] == ["the run was created"]


def test_a_stage_that_clocks_put_before_another_took_no_time() -> None:
    found = stages(origin(), [event(1, 5, 1)], [])

    assert [stage.took_s for stage in found] == [None, 0, 2]


def test_stages_that_were_not_reached_are_left_out() -> None:
    found = stages(origin(start_date=at(4)), [], [steps(None, 5, None, None, None)])

    assert [stage.name for stage in found] == ["the run was created", "the run started", "first task admitted"]


def test_a_cleared_run_has_the_stages_of_its_new_life() -> None:
    before, again = steps(4, 5, 6, 7, 8), steps(100, 101, None, None, None)

    waiting = stages(origin(), [], [before])
    started = stages(origin(start_date=at(99)), [], [before, again])

    assert [stage.name for stage in waiting] == ["the run was created"]
    assert [(stage.name, stage.took_s) for stage in started] == [
        ("the run was created", None),
        ("the run started again", 96),
        ("first task ready", 1),
        ("first task admitted", 1),
    ]


def test_an_attempt_that_was_admitted_as_its_run_started_belongs_to_it() -> None:
    found = stages(origin(start_date=at(4)), [], [steps(4, 4, None, None, None)])

    assert [stage.name for stage in found] == [
        "the run was created",
        "the run started",
        "first task ready",
        "first task admitted",
    ]


def test_events_older_than_the_retention_complete_nothing() -> None:
    known = event(1, 0, 1)

    assert (completing([FORGOTTEN]), completing([known, FORGOTTEN])) == (None, known)
