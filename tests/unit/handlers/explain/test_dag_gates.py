"""What the gates of a DAG show: their state, since when, and the facts."""

from datetime import time
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, A, B, C, dag_view, graph, queued
from tests.unit.handlers.event_driven_dags import at, by, consumer, event, expiring, timed
from tests.unit.handlers.explain.test_dag import DAEMON, HOURLY, STATUS, dag_facts, ticking, unread
from tests.unit.handlers.gates import gate_of, opened, shut
from tidegate.handlers.explain.dag import explain_dag
from tidegate.handlers.scheduling import inputs
from tidegate.schemas.conditions.condition import AllOf, DatasetRef
from tidegate.schemas.explain import reasons, remedy
from tidegate.schemas.explain.gates import Gate
from tidegate.schemas.queries.leases import Away, Incident
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView

IDLE = consumer(A, event(1))
BEFORE = at(-5)
ACTIVE = msgspec.structs.replace(STATUS, paused_at=BEFORE, stale_at=BEFORE)
CATCHUP = {"missed": "all", "missed_per_minute": 1}
LATE = {**CATCHUP, "last_tick": Tick(*4 * (at(-120),))}
ON_TIME = {**CATCHUP, "last_tick": Tick(*4 * (NOW,))}
HALT = Incident("tidegate.dataset-updated/3", 1, 2, 3, at(-1))
EARLIER = Incident("tidegate.dataset-updated/1", 1, 2, 3, at(-2))
PARTITION_1, PARTITION_2 = "Kafka partition p.dataset-updated/1", "Kafka partition p.dataset-updated/2"


def status(**facts: Any) -> dict[str, Any]:
    return {"status": msgspec.structs.replace(ACTIVE, **facts)}


def daily(hour: int) -> Any:
    return by("skip", at=time(hour), timezone="UTC")


@pytest.mark.parametrize(
    ("dag", "facts", "expected"),
    [
        (IDLE, status(), opened("pause")),
        (consumer(A, is_paused=True), status(is_paused=True), shut("pause", reasons.DagPaused(), BEFORE, paused=True)),
        (IDLE, status(), opened("DAG file", file="d.py", version=3)),
        (
            IDLE,
            status(import_error="no module x", broken_since=at(-3)),
            opened("DAG file", file="d.py", version=3, error="no module x", broken_since=at(-3)),
        ),
        (
            consumer(A, is_stale=True),
            status(is_stale=True),
            shut("DAG file", reasons.DagStale(), BEFORE, file="d.py", version=3, missing=True),
        ),
        (
            consumer(A, limit=4, running=2),
            status(),
            opened("run limit", running=2, max_active_runs=4, runs=("r1", "r2")),
        ),
        (IDLE, {}, opened("queued runs")),
        (consumer(A, queued=2, queued_runs=queued(graph("t"), 5, 6)), {}, opened("queued runs", queued=2)),
        (IDLE, {}, opened("daemons", alive=1, daemons=("h (pid 7)",))),
        (IDLE, {"daemons": []}, shut("daemons", reasons.NoDaemon(), alive=0)),
        (IDLE, {}, opened("intake")),
        (
            IDLE,
            {"incidents": [HALT, EARLIER, msgspec.structs.replace(HALT, partition="dataset-updated/5", at=None)]},
            shut(
                "intake",
                reasons.IntakeHalted(("tidegate.dataset-updated/3", "tidegate.dataset-updated/1", "dataset-updated/5")),
                at(-2),
            ),
        ),
        (
            IDLE,
            {"incidents": [msgspec.structs.replace(HALT, at=None)]},
            shut("intake", reasons.IntakeHalted(("tidegate.dataset-updated/3",))),
        ),
        (
            IDLE,
            {"daemons": [msgspec.structs.replace(DAEMON, away={"Kafka": Away(BEFORE, "refused")})]},
            shut("intake", reasons.ServerUnreachable("Kafka", BEFORE, "refused"), BEFORE),
        ),
        (
            IDLE,
            {"daemons": [unread(PARTITION_2), unread(PARTITION_1), unread(PARTITION_1, "timed out")]},
            shut("intake", reasons.ServerUnreachable(PARTITION_1, NOW, "no leader"), NOW),
        ),
    ],
)
def test_a_gate_of_a_dag_has_its_facts(dag: DagView, facts: Any, expected: Gate[Any]) -> None:
    assert gate_of(explain_dag(dag_facts(dag, **facts)), expected.name) == expected


@pytest.mark.parametrize(
    ("dag", "expected"),
    [
        (ticking(HOURLY), opened("timetable", next=NOW)),
        (ticking(HOURLY, last_tick=Tick(*4 * (at(-60),))), opened("timetable", next=NOW, last_date=at(-60))),
        (
            ticking(HOURLY, **ON_TIME),
            shut("timetable", reasons.NotYetDue(at(60)), next=at(60), last_date=NOW),
        ),
        (
            ticking(HOURLY, **LATE, catchup_until=at(0.5)),
            shut("timetable", reasons.NotYetDue(at(0.5)), next=at(-60), last_date=at(-120)),
        ),
        (ticking(HOURLY, **LATE, catchup_until=at(-0.5)), opened("timetable", next=at(-60), last_date=at(-120))),
        (
            ticking(HOURLY, **ON_TIME, catchup_until=at(0.5)),
            shut("timetable", reasons.NotYetDue(at(60)), next=at(60), last_date=NOW),
        ),
    ],
)
def test_the_gate_of_a_timetable_has_the_time_of_the_next_run(dag: DagView, expected: Gate[Any]) -> None:
    """A catchup interval delays only what is late."""
    assert gate_of(explain_dag(dag_facts(dag)), "timetable") == expected


@pytest.mark.parametrize(
    ("dag", "expected"),
    [
        (consumer(AllOf((A, B, C)), event(1), event(2, "b")), {"inputs": "2 of 3", "pending": 2, "version": 3}),
        (consumer(AllOf((A, B, C))), {"inputs": "0 of 3", "version": 3}),
    ],
)
def test_the_gate_of_a_condition_counts_the_inputs_that_arrived(dag: DagView, expected: dict[str, object]) -> None:
    assert gate_of(explain_dag(dag_facts(dag)), "condition").facts == expected


@pytest.mark.parametrize(
    ("dag", "expected"),
    [
        (
            consumer(A, event(1, arrived=-9), timing=timed(quiet_for=5), dataset_run_at=at(-90)),
            opened("timing", quiet_for_s=300, last_run=at(-90)),
        ),
        (
            consumer(A, event(1), timing=daily(14), deadline_at=at(-1440), dataset_run_at=at(-1500)),
            opened("timing", last_run=at(-1500), deadline=at(120), then="skip"),
        ),
        (
            consumer(A, event(1), timing=daily(11), deadline_at=at(-120)),
            opened("timing", deadline=at(-60), then="skip"),
        ),
    ],
)
def test_the_gate_of_the_timing_has_the_last_run_and_the_deadline(dag: DagView, expected: Gate[Any]) -> None:
    assert gate_of(explain_dag(dag_facts(dag)), "timing") == expected


def test_a_condition_that_cannot_be_evaluated_says_why() -> None:
    dag = consumer(DatasetRef("s://a", "n >"), event(1))
    fault = "FilterError: at character 4 of 'n >': expected a field or a value, found the end"

    assert gate_of(explain_dag(dag_facts(dag)), "condition").reason == reasons.ConditionBroken(fault)


def test_the_events_are_inspected_once_for_all_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    def inspect_again(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(inputs, "inspect_events", inspect_again)
    page = explain_dag(dag_facts(consumer(expiring("a", 5), event(1), is_paused=True)))

    assert gate_of(page, "condition").facts == {"inputs": "1 of 1", "pending": 1, "version": 3}


def test_an_explanation_names_its_dag() -> None:
    assert explain_dag(dag_facts(dag_view(graph("t")))).dag_id == "d"


def test_events_as_old_as_the_window_count() -> None:
    old = consumer(AllOf((A, B, C)), event(1, "a", arrived=-10), event(2, "b", arrived=-30), timing=timed(within=10))

    assert explain_dag(dag_facts(old)).change == (remedy.Publish(("s://b", "s://c"), ("s://b", "s://c")),)
