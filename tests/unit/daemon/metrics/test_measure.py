"""The metrics: their names, types, help texts and labels as users of Prometheus expect them, and what effects count."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tidegate.daemon import measure
from tidegate.daemon.measure import METRICS, Measurements, Metric, Sample, of_effects, of_events
from tidegate.daemon.metrics.serve import registry_of
from tidegate.schemas.effect.run import RunMoved
from tidegate.schemas.effect.submission import EndSubmission
from tidegate.schemas.notice import MissedDeadline
from tidegate.schemas.state import SubmissionState
from tidegate.schemas.wire.event import DagRunStateChanged

NOW = datetime(2026, 12, 1, tzinfo=UTC)
MAX_SERIES = 64
"""The most series of a metric whose labels all have known values."""

FORBIDDEN_LABELS = {"run", "run_id", "dag_id", "task_id", "event_id", "le", "quantile", "instance", "job"}
"""Without a bound, or set by Prometheus."""


def moved(state: str, seq: int, run_type: str = "dataset", waited_s: float = 0, **given: Any) -> RunMoved:
    since = NOW - timedelta(seconds=waited_s)
    event = DagRunStateChanged(dag_id="d", run_id="r", seq=seq, state=state, run_type=run_type, run_after=since, at=NOW, **given)
    return RunMoved(1, event)


MISSED = MissedDeadline(name="late", due_at=NOW)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_follows_the_conventions(metric: Metric) -> None:
    assert re.fullmatch("tidegate(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.kind != "histogram" or metric.name.endswith("_seconds")
    assert not re.search("_(ms|milliseconds|minutes|hours|kb|mb|mib|count|sum|bucket)(_|$)", metric.name)
    assert metric.help.endswith(".")
    assert metric.help[0].isupper() or metric.help[0].isdigit()


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_labels_of_a_metric_are_bounded(metric: Metric) -> None:
    series = 1
    for label in metric.labels:
        assert label.name not in FORBIDDEN_LABELS
        assert bool(label.values) != bool(label.bound), "a label has its values, or what bounds them"
        series *= len(label.values) or 1
    assert series <= MAX_SERIES


def test_names_are_unique() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS) > 30


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ([moved("queued", 1, waited_s=2.5)], [Sample(measure.RUN_DELAY, 2.5)]),
        ([moved("queued", 1, waited_s=-2.5)], [Sample(measure.RUN_DELAY, 0)]),
        ([moved("queued", 1, "manual")], []),
        ([moved("queued", 4)], []),
        ([moved("running", 2)], []),
        ([moved("success", 3)], [Sample(measure.RUNS_ENDED, 1, ("dataset", "success"))]),
        ([moved("failed", 3, "scheduled")], [Sample(measure.RUNS_ENDED, 1, ("scheduled", "failed"))]),
        ([moved("failed", 4, missed_deadline=MISSED)], []),
        (
            [EndSubmission(uuid4(), SubmissionState.LOST, "", None, None, NOW, backend="command")],
            [Sample(measure.ATTEMPTS_ENDED, 1, ("command", "lost"))],
        ),
        ([object()], []),
    ],
)
def test_effects_are_counted(effects: Sequence[Any], expected: Sequence[Sample]) -> None:
    assert list(of_effects(effects)) == expected


def test_outcomes_without_events_are_not_counted() -> None:
    assert list(of_events("t", {"recorded": 3, "duplicate": 0, "dead_letter": 1})) == [
        Sample(measure.EVENTS, 3, ("t", "recorded")),
        Sample(measure.EVENTS, 1, ("t", "dead_letter")),
    ]


def parsed(measurements: Measurements) -> dict[tuple[str, tuple[str, ...]], float]:
    """By name and values of labels, in the order of the names of labels."""
    text = generate_latest(registry_of(measurements, measurements.lags)).decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, tuple(sample.labels.values())): sample.value for sample in samples}


def test_known_labels_begin_at_zero() -> None:
    measurements = Measurements()
    measurements.begin(measure.EVENTS, measure.TASK_DELAY, topics=["t"])

    values = parsed(measurements)

    assert values["tidegate_events_total", ("duplicate", "t")] == 0
    assert values["tidegate_task_start_delay_seconds_count", ("spark-connect",)] == 0


def test_a_second_begin_keeps_the_counts() -> None:
    """The duty that serves them starts again after a failure."""
    measurements = Measurements()
    measurements.add([Sample(measure.EVENTS, 2, ("t", "recorded")), Sample(measure.RUN_DELAY, 1)])

    measurements.begin(measure.EVENTS, measure.RUN_DELAY, topics=["t"])

    assert parsed(measurements)["tidegate_events_total", ("recorded", "t")] == 2
    assert parsed(measurements)["tidegate_run_creation_delay_seconds_count", ()] == 1


def test_delays_are_in_the_buckets_from_their_bound_on() -> None:
    measurements = Measurements()
    measurements.add(Sample(measure.RUN_DELAY, seconds) for seconds in (0.005, 0.006, 50, 100_000))

    values = parsed(measurements)

    name = "tidegate_run_creation_delay_seconds"
    counts = {bound: values[f"{name}_bucket", (bound,)] for bound in ("0.005", "0.01", "30.0", "60.0", "14400.0", "+Inf")}
    assert counts == {"0.005": 1, "0.01": 2, "30.0": 2, "60.0": 3, "14400.0": 3, "+Inf": 4}
    assert values[f"{name}_sum", ()] == pytest.approx(100_050.011)


def test_the_lag_is_asked_while_its_topic_is_read() -> None:
    measurements = Measurements()

    with measurements.reading("t", lambda: {0: 7, 3: 0}):
        values = parsed(measurements)

    assert values["tidegate_intake_lag_records", ("0", "t")] == 7
    assert values["tidegate_intake_lag_records", ("3", "t")] == 0
    assert ("tidegate_intake_lag_records", ("0", "t")) not in parsed(measurements)


def test_all_types_and_help_texts_are_served() -> None:
    measurements = Measurements()
    measurements.begin(*(metric for metric in METRICS if metric.kind != "gauge" and metric is not measure.REQUESTS))
    reads = [
        lambda metric=metric: [Sample(metric, 1, tuple("x" for _ in metric.labels))]
        for metric in METRICS
        if metric.kind == "gauge"
    ]

    families = text_string_to_metric_families(generate_latest(registry_of(measurements, *reads)).decode())

    served = {family.name: (family.type, family.documentation) for family in families if family.name.startswith("tidegate")}
    for metric in set(METRICS) - {measure.REQUESTS, measure.EVENTS}:
        assert served[metric.name.removesuffix("_total")] == (metric.kind, metric.help)
