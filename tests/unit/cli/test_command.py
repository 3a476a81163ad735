"""Parsers of command-line values, and the question before a change."""

import io
import sys
from datetime import UTC, datetime

import pytest
import typer

from tidegate.daemon.cli.command import confirm, parse_time
from tidegate.daemon.read_model.dead_letter import Change
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries.dead_letters import DeadLetterState


@pytest.mark.parametrize(
    "given",
    ["2013-01-31T06:00", "2013-01-31 06:00:00", "2013-01-31T06:00Z", "2013-01-31T07:00+01:00", "20130131T0600"],
)
def test_a_time_without_an_offset_is_in_utc(given: str) -> None:
    assert parse_time(given) == datetime(2013, 1, 31, 6, tzinfo=UTC)


def test_a_date_is_its_first_moment() -> None:
    assert parse_time("2013-01-31") == datetime(2013, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize("given", ["", "yesterday", "2013-02-30", "2013-01-31T24:01"])
def test_what_is_no_time_is_answered_with_an_example(given: str) -> None:
    with pytest.raises(typer.BadParameter, match="like 2013-01-31, 2013-01-31T06:00 or"):
        parse_time(given)


@pytest.mark.parametrize("given", ["0001-01-01", "0001-01-01T00:00+05:00", "1899-12-31T23:59", "2200-01-02", "9999-12-31T23:59Z"])
def test_a_time_out_of_range_is_answered_with_the_range(given: str) -> None:
    with pytest.raises(typer.BadParameter, match="is out of range; write a time from 1900-01-01 to 2200-01-01 UTC"):
        parse_time(given)


class Terminal(io.StringIO):
    """What a user types at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("verb", ["clear", "delete", *Change])
def test_the_answer_no_changes_nothing(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))

    with pytest.raises(RequestError, match=f"^nothing was changed: {verb} was not confirmed$"):
        confirm(verb, "backfill 3")


@pytest.mark.parametrize(
    ("change", "state"), [(Change.REPLAY, DeadLetterState.REPLAYED), (Change.DISCARD, DeadLetterState.DISCARDED)]
)
def test_a_change_of_dead_letters_has_a_state(change: Change, state: DeadLetterState) -> None:
    assert change.state is state
