"""The gates between a DAG and its next run, and the changes that open them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, A, B, dag_view, graph, queued
from tests.unit.handlers import task_facts
from tests.unit.handlers.event_driven_dags import at, by, consumer, event, expiring, timed
from tests.unit.schemas.explain.test_reasons import TEXTS
from tidegate.handlers.explain.dag import DagFacts, dag_changes, explain_dag, would_run
from tidegate.schemas.conditions.condition import AllOf, DatasetRef, Timing
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.explain import reasons, remedy
from tidegate.schemas.explain.gates import DagExplanation, Gate, GateState
from tidegate.schemas.explain.remedy import Change
from tidegate.schemas.queries.leases import Away, Incident, JobRow
from tidegate.schemas.queries.row_holders import HeldRow, RowHolder
from tidegate.schemas.timetable.spec import Continuous, Cron, Every, Once
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView

STATUS = msgspec.structs.replace(task_facts.STATUS, version=3, running=["r1", "r2"])
DAEMON = task_facts.DAEMON
HOURLY = Cron(("0 * * * *",))
LIMITED: dict[str, Any] = {"limit": 1, "running": 1}
BOTH = AllOf((A, B))


def dag_facts(dag: DagView, **facts: Any) -> DagFacts:
    """Facts about a DAG with reserved run ids."""
    dag = msgspec.structs.replace(dag, event_run_ids=(0,), timed_run_ids=(0,))
    return DagFacts(**{"now": NOW, "dag": dag, "status": STATUS, "daemons": [DAEMON], **facts})


def ticking(timetable: Any, **facts: Any) -> DagView:
    """A DAG whose timetable began 90 minutes ago, idle but for these facts."""
    of_graph = {
        name: facts.pop(name) for name in ("limit", "schedule", "together", "missed", "missed_per_minute") if name in facts
    }
    return dag_view(graph("t", timetable=timetable, **of_graph), timed_since=at(-90), **facts)


def closed(page: DagExplanation) -> dict[str, object]:
    return {gate.name: gate.reason for gate in page.closed}


def unread(server: str, error: str = "no leader") -> JobRow:
    return msgspec.structs.replace(DAEMON, away={server: Away(NOW, error)})


HELD_ROW = HeldRow("DAG d", RowHolder(42, "ada", "psql", "", NOW, NOW, ("dag",), ("d",)))
NEW_A = remedy.Publish(("s://a",), ("s://a",))
GATES = [
    pytest.param(consumer(A, event(1)), {}, (), id="nothing"),
    pytest.param(consumer(A), {"condition": reasons.InputsMissing(("s://a",))}, (NEW_A,), id="condition"),
    pytest.param(
        consumer(BOTH, event(1)),
        {"condition": reasons.InputsMissing(("s://b",))},
        (remedy.Publish(("s://b",), ("s://b",)),),
        id="one of two inputs",
    ),
    pytest.param(
        consumer(DatasetRef("s://a", "n > 1"), event(1, n=1)),
        {"condition": reasons.InputsMissing(("s://a[n > 1]",))},
        (remedy.Publish(("s://a[n > 1]",), ()),),
        id="a filter",
    ),
    pytest.param(
        consumer(expiring("a", 5), event(1, arrived=-9)),
        {"condition": reasons.InputsMissing(("s://a",))},
        (remedy.Publish(("s://a",), ("s://a",)),),
        id="an input that expired",
    ),
    pytest.param(
        consumer(BOTH, event(1, "a", arrived=-60), event(2, "b", arrived=-1), timing=timed(within=10)),
        {"condition": reasons.OutsideWindow(600)},
        (NEW_A,),
        id="inputs apart",
    ),
    pytest.param(
        consumer(DatasetRef("s://a", "n >"), event(1)),
        {"condition": None},
        (remedy.CorrectCondition("d.py"),),
        id="a condition that cannot be read",
    ),
    pytest.param(
        consumer(A, event(1, arrived=-1), timing=timed(quiet_for=10)),
        {"timing": reasons.Debouncing(at(9))},
        (remedy.Wait(at(9)),),
        id="quiet",
    ),
    pytest.param(
        consumer(A, event(1), timing=timed(min_interval=60), dataset_run_at=at(-10)),
        {"timing": reasons.RateLimited(at(50))},
        (remedy.Wait(at(50)),),
        id="interval",
    ),
    pytest.param(consumer(A, event(1), is_paused=True), {"pause": reasons.DagPaused()}, (remedy.Unpause("d"),), id="pause"),
    pytest.param(
        consumer(A, event(1), is_stale=True), {"DAG file": reasons.DagStale()}, (remedy.RestoreFile("d", "d.py"),), id="file"
    ),
    pytest.param(
        consumer(A, event(1), **LIMITED),
        {"run limit": reasons.MaxActiveRuns(1)},
        (remedy.RaiseRuns("d", "d.py", 2, ("r1", "r2")),),
        id="run limit",
    ),
    pytest.param(
        consumer(A, event(1), **LIMITED, queued=1, queued_runs=queued(graph("t"), 5)),
        {"run limit": reasons.MaxActiveRuns(1)},
        (remedy.RaiseRuns("d", "d.py", 3, ("r1", "r2")),),
        id="run limit, and a queued run whose turn it is",
    ),
    pytest.param(
        consumer(A, event(1), **LIMITED, queued=1, queued_runs=queued(graph("t"), 5), is_paused=True, is_stale=True),
        {"pause": reasons.DagPaused(), "DAG file": reasons.DagStale(), "run limit": reasons.MaxActiveRuns(1)},
        (remedy.Unpause("d"), remedy.RestoreFile("d", "d.py"), remedy.RaiseRuns("d", "d.py", 3, ("r1", "r2"))),
        id="the same of a paused DAG without a file",
    ),
    pytest.param(
        consumer(A, event(1), limit=1, queued=1, queued_runs=queued(graph("t"), 5)),
        {"queued runs": reasons.RunsAhead(1)},
        (remedy.RaiseRuns("d", "d.py", 2, ("r1", "r2")),),
        id="queued runs",
    ),
    pytest.param(
        consumer(A, is_paused=True, **LIMITED),
        {"condition": reasons.InputsMissing(("s://a",)), "pause": reasons.DagPaused(), "run limit": reasons.MaxActiveRuns(1)},
        (NEW_A, remedy.Unpause("d"), remedy.RaiseRuns("d", "d.py", 2, ("r1", "r2"))),
        id="several",
    ),
    pytest.param(dag_view(graph("t")), {"schedule": reasons.NoSchedule()}, (remedy.Trigger("d"),), id="no schedule"),
    pytest.param(ticking(HOURLY), {}, (), id="a tick that is due"),
    pytest.param(
        ticking(HOURLY, run_dates=frozenset({NOW})),
        {"timetable": reasons.NotYetDue(at(60))},
        (remedy.Wait(at(60)),),
        id="tick",
    ),
    pytest.param(
        ticking(HOURLY, missed="all", missed_per_minute=1, last_tick=Tick(*4 * (NOW,)), catchup_until=at(0.5)),
        {"timetable": reasons.NotYetDue(at(60))},
        (remedy.Wait(at(60)),),
        id="tick after a catchup",
    ),
    pytest.param(
        ticking(Once(), last_tick=Tick(at(-90), at(-90), at(-90), at(-90))),
        {"timetable": reasons.TimetableExhausted()},
        (remedy.Trigger("d"),),
        id="no more ticks",
    ),
    pytest.param(
        ticking(Continuous(), limit=1, running=1),
        {"run limit": reasons.MaxActiveRuns(1)},
        (remedy.EndRun("d", ("r1", "r2")),),
        id="a run that follows the end of another",
    ),
    pytest.param(
        ticking(Continuous(), limit=1, running=1, schedule=A, pending=(event(1),)),
        {"run limit": reasons.MaxActiveRuns(1)},
        (remedy.EndRun("d", ("r1", "r2")),),
        id="a dataset run beside continuous runs",
    ),
    pytest.param(
        ticking(HOURLY, schedule=A, together=True, run_dates=frozenset({NOW})),
        {"condition": reasons.InputsMissing(("s://a",)), "timetable": reasons.NotYetDue(at(60))},
        (NEW_A, remedy.Wait(at(60))),
        id="a tick that needs datasets",
    ),
    pytest.param(ticking(HOURLY, schedule=A), {"condition": reasons.InputsMissing(("s://a",))}, (), id="time alone will do"),
    pytest.param(
        ticking(HOURLY, schedule=A, run_dates=frozenset({NOW}), pending=(event(1),)),
        {"timetable": reasons.NotYetDue(at(60))},
        (),
        id="events alone will do",
    ),
]


@pytest.mark.parametrize(("dag", "gates", "change"), GATES)
def test_a_closed_gate_has_a_reason_and_a_change_that_opens_it(
    dag: DagView, gates: Mapping[str, object], change: Sequence[Change]
) -> None:
    page = explain_dag(dag_facts(dag))

    gates_closed = {name: None if isinstance(of, reasons.ConditionBroken) else of for name, of in closed(page).items()}
    assert (gates_closed, page.change) == (gates, change)


@pytest.mark.parametrize(("dag", "gates", "change"), GATES)
def test_a_run_starts_exactly_where_no_change_is_needed(
    dag: DagView, gates: Mapping[str, object], change: Sequence[Change]
) -> None:
    page = explain_dag(dag_facts(dag))

    assert page.starts is would_run(dag_facts(dag).dag, NOW) is (not change)


def test_of_the_limits_that_many_queued_runs_leave_few_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def would_run_with(dag: DagView, now: datetime) -> bool:
        tried.append(dag.graph.max_active_runs)
        return would_run(dag, now)

    monkeypatch.setattr(explain_dag.__module__ + ".would_run", would_run_with)
    many = queued(graph("t"), *range(5, 305))
    page = explain_dag(dag_facts(consumer(A, queued=300, queued_runs=many, **LIMITED)))

    assert page.change[-1] == remedy.RaiseRuns("d", "d.py", 2, ("r1", "r2"))
    assert len(tried) <= 4


def test_where_datasets_and_time_each_make_runs_there_are_two_changes() -> None:
    page = explain_dag(dag_facts(ticking(HOURLY, schedule=A, run_dates=frozenset({NOW}), is_paused=True)))

    assert page.change == (NEW_A, remedy.Unpause("d"))
    assert page.instead == (remedy.Wait(at(60)), remedy.Unpause("d"))


@pytest.mark.parametrize(
    ("facts", "block", "change"),
    [
        pytest.param(
            {"incidents": [Incident("tidegate.dataset-updated/3", 1, 2, 3, NOW)]},
            {"intake": reasons.IntakeHalted(("tidegate.dataset-updated/3",))},
            remedy.Resume(("tidegate.dataset-updated/3",)),
            id="a partition that stands still",
        ),
        pytest.param({"incidents": [Incident("tidegate.task-finished/3", 1, 2, 3, NOW)]}, {}, None, id="of another topic"),
        pytest.param(
            {"daemons": [msgspec.structs.replace(DAEMON, away={"Kafka": Away(NOW, "refused")})]},
            {"intake": reasons.ServerUnreachable("Kafka", NOW, "refused")},
            remedy.RestoreServer("Kafka"),
            id="Kafka",
        ),
        pytest.param(
            {"daemons": [msgspec.structs.replace(DAEMON, away={"Kafka": Away(NOW, "refused")}), DAEMON]}, {}, None, id="one reads"
        ),
        pytest.param(
            {"daemons": [DAEMON, unread("Kafka partition p.dataset-updated/3")]},
            {"intake": reasons.ServerUnreachable("Kafka partition p.dataset-updated/3", NOW, "no leader")},
            remedy.RestoreServer("Kafka partition p.dataset-updated/3"),
            id="a partition",
        ),
        pytest.param(
            {"daemons": [DAEMON, unread("duty ingest dataset-updated")]},
            {"intake": reasons.ServerUnreachable("duty ingest dataset-updated", NOW, "no leader")},
            remedy.RestoreServer("duty ingest dataset-updated"),
            id="the duty of the intake",
        ),
        pytest.param({"daemons": [unread("Kafka partition p.task-finished/1")]}, {}, None, id="a partition of another topic"),
        pytest.param({"daemons": []}, {"daemons": reasons.NoDaemon()}, remedy.StartDaemon(), id="daemons"),
        pytest.param(
            {"held_row": HELD_ROW},
            {"lock": reasons.RowLocked("DAG d", HELD_ROW.holder.text, 42)},
            remedy.EndTransaction(42),
            id="a row that another session holds",
        ),
    ],
)
def test_the_services_around_a_dag_have_gates(facts: Any, block: Mapping[str, object], change: Change | None) -> None:
    page = explain_dag(dag_facts(consumer(A), **facts))

    assert closed(page) == {"condition": reasons.InputsMissing(("s://a",)), **block}
    publish = () if isinstance(change, remedy.RestoreServer) else (NEW_A,)  # what is unread may have it
    assert page.change == (*publish, *([change] if change else []))


def test_without_a_daemon_no_run_starts() -> None:
    assert explain_dag(dag_facts(consumer(A, event(1)), daemons=[])).starts is False


def test_timing_is_not_reached_before_the_condition_holds() -> None:
    gates = {gate.name: gate for gate in explain_dag(dag_facts(consumer(A, timing=by("skip", after=5)))).gates}

    assert gates["timing"].state is GateState.NOT_REACHED


def test_the_timing_gate_names_the_deadline_and_its_fallback() -> None:
    dag = consumer(BOTH, event(1, arrived=-2), timing=by("run_anyway", after=5))

    gates = {gate.name: gate for gate in explain_dag(dag_facts(dag)).gates}

    assert gates["timing"].facts == {"deadline": at(3), "then": "run_anyway"}
    assert gates["condition"].facts == {"inputs": "1 of 2", "pending": 1, "version": 3}
    assert gates["condition"].since == at(-2)


def test_the_timing_gate_has_each_time_of_the_timing() -> None:
    timing = timed(within=60, quiet_for=10, max_wait=20, min_interval=30)

    gates = {gate.name: gate for gate in explain_dag(dag_facts(consumer(A, event(1, arrived=-1), timing=timing))).gates}

    assert gates["timing"].facts.keys() == set(Timing.__struct_fields__) - {"deadline"}


def test_the_timing_gate_of_a_broken_condition_names_no_deadline() -> None:
    dag = consumer(DatasetRef("s://a", "n >"), event(1), timing=by("skip", after=5))

    gates = {gate.name: gate for gate in explain_dag(dag_facts(dag)).gates}

    assert gates["timing"].facts == {}


@pytest.mark.parametrize("reason", [reason for reason, _ in TEXTS if isinstance(reason, reasons.DagReason)])
def test_a_gate_of_a_dag_that_is_closed_for_any_reason_is_explained(reason: reasons.DagReason) -> None:
    gate: Gate[reasons.DagReason] = Gate(name="any", state=GateState.CLOSED, reason=reason)

    assert len(dag_changes(dag_facts(consumer(A)), [gate])) == 1


def test_a_condition_that_the_time_of_an_event_breaks_is_explained_all_the_same() -> None:
    """Postgres gives infinity as a time without a zone."""
    infinite = msgspec.structs.replace(event(1), arrived_at=datetime.max)  # noqa: DTZ901

    page = explain_dag(dag_facts(consumer(expiring("a", 5), event(2), infinite)))

    assert isinstance(closed(page)["condition"], reasons.ConditionBroken)


def test_a_tick_that_breaks_the_explanation_is_a_fault_of_its_dag() -> None:
    tick = Tick(datetime.min, at(-90), at(-90), at(-90))  # noqa: DTZ901 - so Postgres gives an infinite time

    with pytest.raises(DagFaultError, match="DAG 'd': a decision failed: TypeError"):
        explain_dag(dag_facts(ticking(Every(seconds=60), last_tick=tick)))
