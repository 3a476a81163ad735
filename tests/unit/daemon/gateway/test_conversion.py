"""What is wrong with a request names the parameter, and what it may be."""

from typing import Any

import pytest

from tidegate.daemon.api.backfills import NewBackfill
from tidegate.daemon.api.notes import NewNote
from tidegate.daemon.api.runs import Mark, NewRunQuery, RunList
from tidegate.daemon.gateway.conversion import converted, given_once
from tidegate.daemon.gateway.endpoint import Nothing
from tidegate.daemon.gateway.problem import InvalidError


@pytest.mark.parametrize(
    ("values", "type_", "problem"),
    [
        ({"state": "ended"}, RunList, "state: it is 'ended', but must be queued, running, success or failed"),
        ({"state": "done"}, Mark, "state: it is 'done', but must be failed or success"),
        ({"dag_id": "d", "outlets": "all"}, NewBackfill, "outlets: it is 'all', but must be events, none or cascade"),
        ({"text": "late"}, NewNote, "`text` is unknown; there is content"),
        ({"dag_id": "d", "x": 1}, NewRunQuery, "`x` is unknown; there is dag_id or wait"),
        ({"x": 1}, Nothing, "`x` is unknown; leave it out"),
        ({"limit": "0"}, RunList, "limit: expected `int` >= 1"),
        ([1], tuple[str], "Expected `str`, got `int` - at `$[0]`"),
    ],
)
def test_a_wrong_value_is_refused_with_those_that_may_be(values: Any, type_: Any, problem: str) -> None:
    with pytest.raises(InvalidError) as refused:
        converted(values, type_, strict=False)

    assert str(refused.value) == problem


def test_a_parameter_is_given_once() -> None:
    assert given_once([("state", "failed"), ("limit", "1")]) == {"state": "failed", "limit": "1"}
    with pytest.raises(InvalidError, match="state: it is given 2 times"):
        given_once([("state", "failed"), ("limit", "1"), ("state", "success")])
