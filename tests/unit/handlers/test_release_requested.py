"""A held DAG is released by a user, and events of consumers whose decision fails wait for the clock."""

from datetime import UTC, datetime

from tidegate.handlers import dataset_update_deferred, dataset_updated, release_requested
from tidegate.handlers.load import LockedDags
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.effect.backfill import WakeBackfills
from tidegate.schemas.effect.dag import DeferDag, ReleaseDag
from tidegate.schemas.message import Message, ReleaseRequested
from tidegate.schemas.queries.holds import Hold

NOW = datetime(2026, 5, 1, tzinfo=UTC)
REQUEST = Message(body=ReleaseRequested(dag_id="d"), at=NOW)


def test_a_held_dag_is_released() -> None:
    state = release_requested.State(NOW, Hold(NOW, "no row"))

    assert list(release_requested.decide([REQUEST], state)) == [ReleaseDag("d", NOW), WakeBackfills("d", NOW)]


def test_a_dag_that_is_not_held_is_not_released() -> None:
    effects = list(release_requested.decide([REQUEST], release_requested.State(NOW, None)))

    assert effects == [RejectMessage("not_held", "no DAG 'd' is held; `tidegate dags list` shows the state of each DAG")]


def test_the_clock_decides_about_a_consumer_whose_row_another_session_holds() -> None:
    state = LockedDags(NOW, (), skipped=("a", "b"))

    assert list(dataset_updated.decide([], state)) == [DeferDag("a", NOW), DeferDag("b", NOW)]


def test_the_clock_visits_each_consumer_of_a_deferred_event() -> None:
    state = dataset_update_deferred.State(NOW, ("a", "b"))

    assert list(dataset_update_deferred.decide([], state)) == [DeferDag("a", NOW), DeferDag("b", NOW)]
