"""Requests of users for runs and pauses, and updates from producers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, A, B, dag_view, graph, message, pending, queued
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers import dataset_updated, pause_requested, run_requested
from tidegate.handlers.load import LockedDags
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.effect.backfill import WakeBackfills
from tidegate.schemas.effect.dag import ConsumeEvents, SetPaused, UpdateSchedule
from tidegate.schemas.effect.run import InsertRun, UpdateRun
from tidegate.schemas.effect.task import InsertTask
from tidegate.schemas.message import PauseRequested, RunRequested
from tidegate.schemas.params import Params, ParamSpec
from tidegate.schemas.state import RunState, RunType
from tidegate.schemas.timetable.spec import Cron
from tidegate.schemas.wire.event import DatasetUpdated

DAG = graph("t", limit=2)


def run_wanted(run_id: str | None = "mine", **conf: Any) -> list[Any]:
    return [message(RunRequested(dag_id="d", run_id=run_id, conf=conf))]


def pause_wanted(*, is_paused: bool) -> list[Any]:
    return [message(PauseRequested(dag_id="d", is_paused=is_paused))]


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        pytest.param({}, RunState.RUNNING, id="room"),
        pytest.param({"running": 1}, RunState.RUNNING, id="room for one more"),
        pytest.param({"running": 2}, RunState.QUEUED, id="at the limit"),
        pytest.param({"running": 1, "queued": 1}, RunState.QUEUED, id="others wait already"),
        pytest.param({"due_at": NOW}, RunState.QUEUED, id="the clock is about to come"),
        pytest.param({"due_at": NOW + timedelta(seconds=1)}, RunState.RUNNING, id="the clock comes later"),
        pytest.param({"is_paused": True}, RunState.QUEUED, id="paused"),
        pytest.param({"is_stale": True}, RunState.QUEUED, id="in no file"),
    ],
)
def test_a_requested_run_starts_if_its_dag_has_capacity(facts: dict[str, Any], state: RunState) -> None:
    found = run_requested.State(NOW, dag_view(DAG, **facts), existing=None)

    effects = well_formed(run_requested.decide(run_wanted(day=1), found))

    (run,) = (effect for effect in effects if isinstance(effect, InsertRun))
    assert (run.id, run.run_id, run.run_type, run.state, run.conf) == (100, "mine", RunType.MANUAL, state, {"day": 1})
    assert any(isinstance(effect, InsertTask) for effect in effects) == (state is RunState.RUNNING)


def test_a_run_without_an_id_is_named_after_the_time() -> None:
    found = run_requested.State(NOW, dag_view(DAG), existing=None)

    effects = run_requested.decide(run_wanted(None), found)

    assert [effect.run_id for effect in effects if isinstance(effect, InsertRun)] == ["manual__2024-05-01T12:00:00+00:00"]


@pytest.mark.parametrize("wrong", [timedelta(hours=-1), timedelta(hours=1)])
def test_the_clock_of_the_client_sets_no_time_of_a_run(wrong: timedelta) -> None:
    (wanted,) = run_wanted()
    late = msgspec.structs.replace(wanted, at=NOW + wrong)

    effects = well_formed(run_requested.decide([late], run_requested.State(NOW, dag_view(DAG), existing=None)))

    (run,) = (effect for effect in effects if isinstance(effect, InsertRun))
    assert (run.run_after, run.state) == (NOW, RunState.RUNNING)


@pytest.mark.parametrize("run_id", ["mine", None])
def test_a_run_id_that_exists_is_rejected(run_id: str | None) -> None:
    name = run_id or "manual__2024-05-01T12:00:00+00:00"

    effects = well_formed(run_requested.decide(run_wanted(run_id), run_requested.State(NOW, dag_view(DAG), existing=name)))

    assert effects == [RejectMessage("run_exists", f"DAG 'd' already has a run {name!r}")]


@pytest.mark.parametrize("kind", ["scheduled__", "dataset__", "backfill__"])
def test_a_run_id_of_a_run_that_tidegate_may_make_is_rejected(kind: str) -> None:
    wanted = run_wanted(f"{kind}2024-05-01T12:00:00+00:00")

    effects = well_formed(run_requested.decide(wanted, run_requested.State(NOW, dag_view(DAG), existing=None)))

    reason = f"run ids that begin with {kind} are reserved for runs that Tidegate makes itself; choose another one"
    assert effects == [RejectMessage("reserved_id", reason)]


def wanted_on(date: datetime, run_after: datetime | None = None) -> list[Any]:
    return [message(RunRequested(dag_id="d", run_id="mine", conf={}, logical_date=date, run_after=run_after))]


def test_a_run_for_a_date_has_the_data_interval_of_its_timetable() -> None:
    """T06: by hand at any time of a day, a daily DAG takes the last whole day."""
    daily = msgspec.structs.replace(DAG, timetable=Cron(("0 0 * * *",), mode="interval"))
    noon = datetime(2024, 4, 20, 12, tzinfo=UTC)

    effects = run_requested.decide(wanted_on(noon), run_requested.State(NOW, dag_view(daily), None))

    (run,) = (effect for effect in effects if isinstance(effect, InsertRun))
    assert (run.logical_date, run.data_interval_start) == (noon, datetime(2024, 4, 19, tzinfo=UTC))
    assert (run.data_interval_end, run.run_after) == (datetime(2024, 4, 20, tzinfo=UTC), NOW)


def test_a_logical_date_that_has_a_run_is_rejected() -> None:
    state = run_requested.State(NOW, dag_view(DAG), existing="scheduled__1")

    effects = well_formed(run_requested.decide(wanted_on(NOW), state))

    reason = f"DAG 'd' already has run 'scheduled__1' for {NOW.isoformat()}; clear that one"
    assert effects == [RejectMessage("run_exists", reason)]


@pytest.mark.parametrize(
    ("due_at", "looked_at"),
    [(None, True), (NOW + timedelta(hours=2), True), (NOW + timedelta(hours=1), False), (NOW + timedelta(minutes=1), False)],
    ids=["the clock does not come", "it comes later", "it comes then", "it comes earlier"],
)
def test_a_run_for_later_is_queued_and_its_dag_is_due_then(due_at: datetime | None, looked_at: bool) -> None:
    later = NOW + timedelta(hours=1)

    effects = well_formed(
        run_requested.decide(wanted_on(NOW, later), run_requested.State(NOW, dag_view(DAG, due_at=due_at), None))
    )

    (run,) = (effect for effect in effects if isinstance(effect, InsertRun))
    assert (run.state, run.run_after) == (RunState.QUEUED, later)
    assert [effect.due_at for effect in effects if isinstance(effect, UpdateSchedule)] == ([later] if looked_at else [])


PARAMS = Params({"day": ParamSpec(schema={"type": "integer"}), "mode": ParamSpec(default="fast")})


@pytest.mark.parametrize("checked", [Params(), Params(PARAMS.specs, extra=True)], ids=["none", "any key was taken"])
def test_a_conf_that_was_checked_against_other_params_is_rejected(checked: Params) -> None:
    dag = dag_view(graph("t", params=PARAMS.specs))
    request = RunRequested(dag_id="d", run_id="mine", conf={"day": 1}, params=checked)

    effects = well_formed(run_requested.decide([message(request)], run_requested.State(NOW, dag, None)))

    reason = "the parameters of DAG 'd' changed after the conf was checked; trigger the run again"
    assert effects == [RejectMessage("params_changed", reason)]


def test_a_run_has_its_conf_and_the_defaults_of_other_params() -> None:
    found = run_requested.State(NOW, dag_view(graph("t", params=PARAMS.specs)), None)
    request = RunRequested(dag_id="d", run_id="mine", conf={"day": 1, "more": True}, params=PARAMS)

    effects = run_requested.decide([message(request)], found)

    assert [effect.conf for effect in effects if isinstance(effect, InsertRun)] == [{"day": 1, "mode": "fast", "more": True}]


def test_a_run_of_an_unknown_dag_is_rejected() -> None:
    effects = well_formed(run_requested.decide(run_wanted(), run_requested.State(NOW, None, existing=None)))

    assert effects == [RejectMessage("no_such_dag", "there is no DAG 'd'; `tidegate dags list` shows all")]


def test_an_unknown_dag_cannot_be_paused() -> None:
    effects = well_formed(pause_requested.decide(pause_wanted(is_paused=True), LockedDags(NOW, ())))

    assert effects == [RejectMessage("no_such_dag", "there is no DAG 'd'; `tidegate dags list` shows all")]


def test_pausing_starts_nothing() -> None:
    dag = dag_view(graph("t", schedule=A), queued=1, queued_runs=queued(DAG, 7), pending=(pending(1),))

    effects = well_formed(pause_requested.decide(pause_wanted(is_paused=True), LockedDags(NOW, (dag,))))

    assert effects == [SetPaused("d", is_paused=True)]


def test_unpausing_starts_queued_and_due_runs() -> None:
    dag = dag_view(graph("t", schedule=A), is_paused=True, queued=1, queued_runs=queued(DAG, 7), pending=(pending(1),))

    effects = well_formed(pause_requested.decide(pause_wanted(is_paused=False), LockedDags(NOW, (dag,))))

    assert effects[:2] == [SetPaused("d", is_paused=False), WakeBackfills("d", NOW)]
    assert [effect.id for effect in effects if isinstance(effect, InsertRun | UpdateRun)] == [7, 100]


def test_an_update_starts_every_consumer_whose_condition_holds() -> None:
    dags = (
        dag_view(graph("t", schedule=A), next_run_id=1, pending=(pending(5),)),
        dag_view(graph("t", schedule=B), next_run_id=2, pending=()),
        dag_view(graph("t", schedule=A), next_run_id=3, pending=(pending(5), pending(6))),
    )

    effects = well_formed(dataset_updated.decide([message(DatasetUpdated(uri=A.uri), "1")], LockedDags(NOW, dags)))

    assert [(effect.dag_run_id, len(effect.events)) for effect in effects if isinstance(effect, ConsumeEvents)] == [
        (1, 1),
        (3, 2),
    ]
