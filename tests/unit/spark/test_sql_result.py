"""What the result of a SQL statement says about the outlets of its task."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.sql_result import add_extra, has_extra
from tidegate.schemas.run import Run, RunContext

AFFECTED = ("num_affected_rows", "num_inserted_rows")


def run_with(*outlets: str, map_index: int | None = None) -> Run:
    at = datetime(2013, 1, 1, tzinfo=UTC)
    known = RunContext(dag_id="d", run_id="r", run_type="manual", run_after=at, params={}, map_index=map_index)
    return Run.of(known, outlets)


@pytest.mark.parametrize(
    ("columns", "run", "extra"),
    [
        pytest.param(("extra.rows", "other"), run_with("s://x", "s://y"), True, id="a key"),
        pytest.param(AFFECTED, run_with("s://x"), True, id="a count of one outlet"),
        pytest.param(AFFECTED, run_with("s://x", "s://y"), False, id="a count of one of two outlets"),
        pytest.param(AFFECTED, run_with("s://x", map_index=0), False, id="a count of an instance"),
        pytest.param(("rows", "extra."), run_with("s://x"), False, id="other columns"),
        pytest.param(("extra.rows",), run_with(), False, id="no outlet"),
    ],
)
def test_which_results_are_about_outlets(columns: Sequence[str], run: Run, *, extra: bool) -> None:
    assert has_extra(columns, run) is extra


@pytest.mark.parametrize(
    ("columns", "row", "extra"),
    [
        pytest.param(("extra.rows", "extra.day", "n"), (12, "2013-01-01", 1), {"rows": 12, "day": "2013-01-01"}, id="keys"),
        pytest.param(AFFECTED, (12, 11), {"rows": 12}, id="a count"),
        pytest.param((*AFFECTED, "extra.rows"), (12, 11, 5), {"rows": 5}, id="a key is preferred"),
        pytest.param(("extra.a", "extra.b"), (Decimal("12.00"), Decimal("0.5")), {"a": 12, "b": 0.5}, id="decimals"),
        pytest.param(("extra.a",), (None,), {"a": None}, id="null"),
    ],
)
def test_outlets_get_the_values_of_the_row(columns: Sequence[str], row: Sequence[Any], extra: Mapping[str, Any]) -> None:
    run = run_with("s://x")

    add_extra(columns, [row], run)

    assert run.outlets["s://x"].extra == extra


@pytest.mark.parametrize(("rows", "found"), [([], "no row"), ([(1,), (2,)], "more than one row")])
def test_another_number_of_rows_fails_the_task(rows: Sequence[Sequence[Any]], found: str) -> None:
    with pytest.raises(TaskError, match=f"the statement returned {found}; with columns named"):
        add_extra(("extra.rows",), rows, run_with("s://x"))
