"""Cursors belong to their list and its filters."""

from types import SimpleNamespace

import pytest

from tidegate.daemon.api.dags import VersionsOf
from tidegate.daemon.api.dead_letters import DeadLetterList
from tidegate.daemon.api.runs import BY_AGE, RunList
from tidegate.daemon.gateway.cursor import NOT_OURS
from tidegate.daemon.gateway.lists import Listed, newest_first
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.daemon.read_model.dead_letter import ListedState
from tidegate.schemas.state import RunState

ROWS = [SimpleNamespace(dag_id="daily", run_id=f"r{number}") for number in range(2)]
OF_DAILY = RunList(dag_id="daily", limit=1)
CURSOR = BY_AGE.page(ROWS, OF_DAILY).next_cursor


def test_a_cursor_goes_on_with_the_same_filters() -> None:
    assert BY_AGE.position(RunList(dag_id="daily", limit=9, cursor=CURSOR)) == ("daily", "r0")


@pytest.mark.parametrize(
    "wanted",
    [
        RunList(cursor=CURSOR),
        RunList(dag_id="other", cursor=CURSOR),
        RunList(dag_id="daily", state=RunState.FAILED, cursor=CURSOR),
        RunList(dag_id="daily", cursor=f"{CURSOR}!!"),
        RunList(dag_id="daily", cursor=f"*{CURSOR}"),
        RunList(dag_id="daily", cursor=f"ä{CURSOR}"),
    ],
)
def test_a_cursor_with_other_filters_or_letters_is_refused(wanted: RunList) -> None:
    with pytest.raises(InvalidError) as refused:
        BY_AGE.position(wanted)

    assert str(refused.value) == NOT_OURS


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidError):
        newest_first("backfills").first(RunList(dag_id="daily", cursor=CURSOR))


@pytest.mark.parametrize(
    ("wanted", "is_filtered"),
    [
        (RunList(), False),
        (RunList(limit=1), False),
        (RunList(dag_id=""), False),
        (RunList(dag_id="daily"), True),
        (RunList(cursor=CURSOR), True),
        (DeadLetterList(), False),
        (DeadLetterList(state=ListedState.ALL), True),
        (VersionsOf(dag_id="daily"), False),
    ],
)
def test_a_list_knows_whether_it_is_whole(wanted: Listed, *, is_filtered: bool) -> None:
    """A parameter of the path names the list, and filters nothing."""
    assert wanted.is_filtered == is_filtered
