"""The DAGs that a user may delete."""

from typing import Any

import pytest

from tests.shapes import NOW, message
from tidegate.handlers import dag_delete_requested
from tidegate.handlers.dag_delete_requested import State
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.effect.backfill import WakeBackfills
from tidegate.schemas.effect.dag import DeleteDag, DeleteHistory
from tidegate.schemas.message import DagDeleteRequested, HistoryPart

PORTION = (HistoryPart.RUNS, 1000)


def decided(state: State, **facts: Any) -> list[Any]:
    return list(dag_delete_requested.decide([message(DagDeleteRequested(dag_id="d", **facts))], state))


def test_a_stale_dag_without_active_runs_is_deleted() -> None:
    assert decided(State(NOW, is_stale=True)) == [DeleteDag("d"), WakeBackfills("d", NOW)]


def test_a_portion_of_its_history_is_deleted_alone() -> None:
    assert decided(State(NOW, is_stale=True), portion=PORTION) == [DeleteHistory("d", HistoryPart.RUNS, 1000)]


@pytest.mark.parametrize("portion", [None, PORTION])
@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        (State(NOW, is_stale=None), "no_such_dag", "there is no DAG 'd'; `tidegate dags list` shows all"),
        (
            State(NOW, is_stale=False),
            "in_a_file",
            "DAG 'd' is still in a DAG file; remove it there, and wait until `tidegate dags list` calls it stale",
        ),
        (
            State(NOW, is_stale=True, has_runs=True, backfills=(3,)),
            "has_runs",
            "DAG 'd' has active or queued runs; `tidegate runs cancel d RUN` ends them",
        ),
        (
            State(NOW, is_stale=True, backfills=(3, 4), waiting=(5,)),
            "has_runs",
            "DAG 'd' has backfill 3; `tidegate backfills cancel 3` ends it",
        ),
        (
            State(NOW, is_stale=True, waiting=(3, 4)),
            "has_runs",
            "backfill 3 waits for DAG 'd', whose runs it runs again; add the DAG to a DAG file, or cancel it: "
            "`tidegate backfills cancel 3`",
        ),
    ],
    ids=["no DAG", "in a file", "active runs", "a backfill", "a cascade of another DAG"],
)
def test_any_other_dag_is_not_deleted(state: State, reason: str, said: str, portion: Any) -> None:
    assert decided(state, portion=portion) == [RejectMessage(reason, said)]
