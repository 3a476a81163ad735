"""The DAGs that a user may delete."""

from typing import Any

import pytest

from tests.shapes import NOW, dag_view, graph, message
from tidegate.handlers import dag_delete_requested
from tidegate.handlers.load import LockedDags
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.effect.dag import DeleteDag
from tidegate.schemas.message import DagDeleteRequested
from tidegate.schemas.view import DagView

DAG = graph("t")


def decided(dag: DagView | None) -> list[Any]:
    return list(
        dag_delete_requested.decide([message(DagDeleteRequested(dag_id="d"))], LockedDags(NOW, () if dag is None else (dag,)))
    )


def test_a_stale_dag_without_active_runs_is_deleted() -> None:
    assert decided(dag_view(DAG, is_stale=True)) == [DeleteDag("d")]


@pytest.mark.parametrize(
    ("dag", "reason"),
    [
        (None, "no_such_dag"),
        (dag_view(DAG), "in_a_file"),
        (dag_view(DAG, is_stale=True, running=1), "has_runs"),
        (dag_view(DAG, is_stale=True, queued=1), "has_runs"),
        (dag_view(DAG, is_stale=True, next_queued_at=NOW), "has_runs"),
    ],
)
def test_any_other_dag_is_not_deleted(dag: DagView | None, reason: str) -> None:
    (refused,) = decided(dag)

    assert isinstance(refused, RejectMessage)
    assert (refused.index, refused.reason) == (0, reason)
