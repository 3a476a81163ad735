"""Conditions with filters, patterns and timing in the authoring API."""

from collections.abc import Callable
from datetime import time, timedelta
from typing import Any

import pytest

import tidegate
from tests.shapes import decode_spec
from tests.unit.schemas.authoring.values import Incomparable, Text
from tidegate import DagError, DatasetOrTime, DatasetPattern
from tidegate.schemas.authoring.validation import validate_dag
from tidegate.schemas.conditions.condition import (
    AllOf,
    AnyOf,
    Condition,
    DatasetRef,
    InputDeadlineSpec,
    NOf,
    PatternRef,
    Timing,
    dataset_uris,
    describe_condition,
    inputs,
    inspects_details,
    patterns,
)
from tidegate.schemas.dag import DagSpec, encode_spec
from tidegate.schemas.graph import graph_of, has_expiry, inspects_events

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)

# Typed as anything: most of what follows is what type checkers refuse.
Dag: Any = tidegate.Dag
Timed: Any = tidegate.Timed
InputDeadline: Any = tidegate.InputDeadline
DatasetsAndTime: Any = tidegate.DatasetsAndTime
cron: Any = tidegate.cron
every: Any = tidegate.every
Dataset: Any = tidegate.Dataset
n_of: Any = tidegate.n_of
a: Any = Dataset("lake://a")
b: Any = Dataset("lake://b")
c: Any = Dataset("lake://c")
days: Any = DatasetPattern("lake://days/*")
A, B, C, DAYS = DatasetRef("lake://a"), DatasetRef("lake://b"), DatasetRef("lake://c"), PatternRef("lake://days/*")


@pytest.mark.parametrize(
    ("schedule", "condition"),
    [
        (lambda: n_of(2, a, b, c), NOf(2, (A, B, C))),
        (lambda: n_of(1, [a, b]), NOf(1, (A, B))),
        (lambda: n_of(2, a, b | c) & a, AllOf((NOf(2, (A, AnyOf((B, C)))), A))),
        (lambda: days & a, AllOf((DAYS, A))),
        (lambda: Dataset("lake://a", where="n > 1"), DatasetRef("lake://a", "n > 1")),
        (lambda: Dataset("lake://a", expire_after=HOUR), DatasetRef("lake://a", "", 3600)),
        (lambda: DatasetPattern("s://**", where="n", expire_after=HOUR), PatternRef("s://**", "n", 3600)),
        (lambda: DatasetPattern("s://**"), PatternRef("s://**")),
        (lambda: Timed(a & b, within=HOUR), AllOf((A, B))),
        (lambda: Timed([a, b], within=HOUR), AllOf((A, B))),
        (
            lambda: Timed(Dataset("lake://a", expire_after=HOUR) | n_of(1, b, days), expire_after=MINUTE),
            AnyOf((DatasetRef("lake://a", "", 3600), NOf(1, (DatasetRef("lake://b", "", 60), PatternRef(DAYS.pattern, "", 60))))),
        ),
    ],
)
def test_a_schedule_means_the_condition_it_spells_and_keeps_it_in_store(
    schedule: Callable[[], Any], condition: Condition
) -> None:
    spec = Dag("d", schedule=schedule()).spec()

    assert spec.schedule == condition
    assert decode_spec(encode_spec(spec)) == spec


def test_a_timing_is_kept_in_seconds() -> None:
    deadline = InputDeadline(at=time(9), fallback="skip")
    schedule = Timed(a, within=HOUR, quiet_for=MINUTE, max_wait=HOUR, min_interval=2 * HOUR, deadline=deadline)

    spec = Dag("d", schedule=schedule, timezone="Europe/Zurich").spec()

    due = InputDeadlineSpec(at=time(9), timezone="Europe/Zurich", fallback="skip")
    assert spec.timing == Timing(within_s=3600, quiet_for_s=60, max_wait_s=3600, min_interval_s=7200, deadline=due)
    assert decode_spec(encode_spec(spec)) == spec


def test_a_deadline_may_be_so_long_after_the_first_event() -> None:
    spec = Dag("d", schedule=Timed(a, deadline=InputDeadline(after=HOUR))).spec()

    assert spec.timing.deadline == InputDeadlineSpec(after_s=3600, fallback="run_anyway")


@pytest.mark.parametrize("option", ["within", "quiet_for", "max_wait", "min_interval", "expire_after"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (5, "must be a timedelta like timedelta(minutes=5), not 5"),
        (-HOUR, "must not be negative"),
        (timedelta(), "must be longer than 0; leave it out for no limit"),
        (timedelta(days=3650, seconds=1), "must not be longer than ten years"),
    ],
)
def test_each_duration_is_above_0_and_up_to_ten_years(option: str, given: Any, said: str) -> None:
    with pytest.raises(DagError) as caught:
        Timed(a, **{"quiet_for": HOUR, option: given})

    assert str(caught.value) == f"Timed: {option} {said}"


def test_a_duration_may_be_ten_years_long() -> None:
    assert Timed(a, within=timedelta(days=3650)).timing.within_s == 3650 * 86_400


def test_no_time_at_all_is_no_deadline() -> None:
    with pytest.raises(DagError, match=r"^InputDeadline: after must be longer than 0$"):
        InputDeadline(after=timedelta())


def test_an_expression_may_be_a_preset() -> None:
    assert cron("@daily", "0 6 * * *", mode="interval") == cron("0 0 * * *", "0 6 * * *", mode="interval")


def test_datasets_and_time_go_together_or_each_alone() -> None:
    joint = Dag("d", schedule=DatasetsAndTime(a & b, "@daily")).spec()
    either = Dag("d", schedule=DatasetOrTime(Timed(a, within=HOUR), "@daily")).spec()

    assert (joint.together, joint.schedule, joint.timetable is None) == (True, AllOf((A, B)), False)
    assert (either.together, either.timing.within_s, either.timetable is None) == (False, 3600, False)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: cron("0 3 * * *", interval=5), "cron(): interval must be a timedelta like timedelta(hours=1), not 5"),
        (lambda: cron("@nightly"), "cron(): cron '@nightly' is not known; write five fields"),
        (lambda: cron(["0 3 * * *"]), "cron(): Expected `str`, got `array` - at `$.expressions[0]`"),
        (lambda: every(days=1, interval="1h"), "every(): interval must be a timedelta like timedelta(hours=1), not '1h'"),
        (lambda: every(days="1"), "every(): unsupported type for timedelta days component: str"),
        (lambda: every(days=1, seconds=float("nan")), "every(): cannot convert float NaN to integer"),
        (lambda: every(months=10**400), "every(): the time between two runs must be at most 100 years, not 10,000,000"),
        (lambda: every(days=1_000_000_000), "every(): the time between two runs must be at most 100 years"),
        (lambda: every(days=10**30), "every(): the time between two runs must be at most 100 years"),
        (lambda: Dag("d", timezone=["UTC"]), "DAG 'd': timezone must be a name like 'Europe/Zurich', not ['UTC']"),
        (lambda: n_of(0, a, b), "n_of(0, …): how many of them must hold is a whole number from 1 to 2"),
        (lambda: n_of(3, a, b), "n_of(3, …): how many of them must hold is a whole number from 1 to 2"),
        (lambda: n_of(2.0, a, b), "n_of(2.0, …): how many"),
        (lambda: n_of(1), "n_of(1, …) takes datasets"),
        (lambda: n_of(1, a, "lake://b"), "n_of(1, …) takes datasets"),
        (
            lambda: Dataset("lake://a", where="rows >"),
            "Dataset('lake://a'): where: at character 7 of 'rows >': expected a field or a",
        ),
        (lambda: Dataset("lake://a", where=5), "Dataset('lake://a'): where must be a text like"),
        (lambda: Dataset("lake://a", expire_after=5), "Dataset('lake://a'): expire_after must be a timedelta"),
        (lambda: Dataset("lake://a", expire_after=timedelta()), "Dataset('lake://a'): expire_after must be longer than 0"),
        (lambda: DatasetPattern("two words*"), "DatasetPattern('two words*'): a URI is"),
        (lambda: DatasetPattern("s://*", where="rows >"), "DatasetPattern('s://*'): where: at character 7 of 'rows >': expected"),
        (lambda: DatasetPattern("s://*", expire_after=-HOUR), "DatasetPattern('s://*'): expire_after must not be negative"),
        (lambda: DatasetPattern("lake://a"), "DatasetPattern('lake://a'): a pattern has a * in it"),
        (lambda: Timed(a, max_wait=HOUR), "Timed: max_wait bounds how long a run waits for quiet"),
        (lambda: Timed(a, within="1h"), "Timed: within must be a timedelta"),
        (lambda: Timed(a, deadline=time(9)), "Timed: deadline is an InputDeadline(after=…) or InputDeadline(at=…)"),
        (InputDeadline, "InputDeadline: write either after=timedelta(hours=1) or at=time(9, 0)"),
        (lambda: InputDeadline(at=time(9), after=HOUR), "InputDeadline: write either"),
        (lambda: InputDeadline(at="09:00"), "InputDeadline: at must be a time without a zone like time(9, 0)"),
        (lambda: InputDeadline(after=5), "InputDeadline: after must be a timedelta like timedelta(minutes=5), not 5"),
        (lambda: InputDeadline(after=HOUR, fallback=Incomparable()), "InputDeadline: fallback is one of 'run_anyway', 'skip'"),
        (lambda: InputDeadline(after=HOUR, fallback="run"), "InputDeadline: fallback is one of 'run_anyway', 'skip', 'alert'"),
        (lambda: Dag("d", schedule=Timed(None, within=HOUR)), "DAG 'd': Timed(…) is about datasets, and there are none"),
        (lambda: Dag("d", schedule=Timed("@daily", within=HOUR)), "DAG 'd': schedule is a dataset"),
        (lambda: Dag("d", schedule=a & Timed(b, within=HOUR)), "only datasets can be combined with &"),
        (lambda: Dag("d", schedule=a & b, mode="each"), "DAG 'd': mode='each' makes a run of each event of one dataset"),
        (lambda: Dag("d", schedule=days, mode="each"), "DAG 'd': mode='each' makes a run of each event of one dataset"),
        (lambda: Dag("d", schedule="@daily", mode="each"), "DAG 'd': timing, mode and DatasetsAndTime are about datasets"),
        (lambda: Dag("d", schedule=a, mode="every"), "DAG 'd': mode: invalid enum value 'every'"),
        (lambda: Dag("d", schedule=a, on_paused="wait"), "DAG 'd': on_paused: invalid enum value 'wait'"),
        (lambda: Dag("d", schedule=Timed(a, quiet_for=HOUR), mode="each"), "DAG 'd': mode='each' does not go with"),
        (lambda: Dag("d", schedule=DatasetsAndTime(a, "@daily"), mode="each"), "DAG 'd': mode='each' does not go with"),
        (
            lambda: Dag("d", schedule=DatasetsAndTime(Timed(a, deadline=InputDeadline(after=HOUR)), "@daily")),
            "DAG 'd': with DatasetsAndTime the time itself is the deadline",
        ),
        (
            lambda: Dag("d", schedule=DatasetsAndTime(a, "@continuous"), max_active_runs=1),
            "DAG 'd': DatasetsAndTime needs times to compare the datasets with; leave out @continuous",
        ),
        (
            lambda: Dag("d", schedule=DatasetsAndTime(None, "@daily")),
            "DAG 'd': timing, mode and DatasetsAndTime are about datasets",
        ),
        (
            lambda: Dag("d", schedule=Timed(a, deadline=InputDeadline(at=time(9))), timezone="Mars"),
            "DAG 'd': there is no time zone 'Mars'",
        ),
    ],
)
def test_invalid_conditions_are_refused_in_one_sentence(wrong: Callable[[], object], said: str) -> None:
    with pytest.raises(DagError) as caught:
        wrong()

    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"schedule": DatasetRef("s://a", "rows >")}, "DAG 'd': where: at character 7"),
        ({"schedule": PatternRef("s://a")}, "DAG 'd': pattern s://a: a pattern has a * in it"),
        ({"schedule": AllOf((NOf(2, (A,)), B))}, "DAG 'd': n_of(2, …) can never hold: it has 1 operands"),
        ({"schedule": A, "timing": Timing(max_wait_s=1)}, "DAG 'd': max_wait bounds"),
        ({"schedule": A, "timing": Timing(deadline=InputDeadlineSpec())}, "DAG 'd': a deadline needs exactly one of"),
        ({"schedule": A, "together": True}, "DAG 'd': DatasetsAndTime needs a time"),
        (
            {"schedule": A, "timing": Timing(deadline=InputDeadlineSpec(at=time(9), timezone="Mars"))},
            "DAG 'd': there is no time zone 'Mars'",
        ),
        ({"timing": Timing(within_s=1)}, "DAG 'd': timing, mode and DatasetsAndTime are about datasets"),
    ],
)
def test_a_serialised_dag_with_an_invalid_schedule_is_refused(facts: dict[str, Any], said: str) -> None:
    with pytest.raises(DagError) as caught:
        validate_dag(DagSpec(dag_id="d", **facts))

    assert str(caught.value).startswith(said)


def test_a_condition_is_shown_as_one_writes_it() -> None:
    condition = AllOf((DatasetRef("s://a", "n > 1"), NOf(2, (A, B, PatternRef("s://*")))))

    assert describe_condition(condition) == "(s://a[n > 1] & 2 of (lake://a, lake://b, s://*))"
    assert repr(DatasetPattern("s://*", where="n")) == "DatasetPattern('s://*[n]')"


def test_the_inputs_of_a_condition_are_found_once_each() -> None:
    condition = AllOf((A, NOf(1, (DAYS, A)), AnyOf((B, DAYS))))

    assert inputs(condition) == (A, DAYS, B)
    assert (set(dataset_uris(condition)), set(patterns(condition))) == ({A.uri, B.uri}, {DAYS.pattern})


@pytest.mark.parametrize(
    ("facts", "closer", "aging"),
    [
        ({}, False, False),
        ({"schedule": NOf(1, (A, AllOf((B, C))))}, False, False),
        ({"schedule": AllOf((A, DAYS))}, True, False),
        ({"schedule": DatasetRef("s://a", "n")}, True, False),
        ({"schedule": DatasetRef("s://a", "", 5.0)}, True, True),
        ({"schedule": A, "timing": Timing(within_s=1)}, True, False),
        ({"schedule": A, "timing": Timing(deadline=InputDeadlineSpec(after_s=1))}, True, True),
        ({"schedule": A, "mode": "each"}, True, False),
        ({"schedule": A, "together": True}, True, False),
    ],
)
def test_only_conditions_over_details_inspect_events(facts: dict[str, Any], closer: bool, aging: bool) -> None:
    spec = DagSpec(dag_id="d", **facts)
    graph = graph_of(1, spec)

    assert (inspects_events(spec), graph.inspects_events, has_expiry(spec), graph.has_expiry) == (closer, closer, aging, aging)
    assert spec.schedule is None or not inspects_details(spec.schedule) or closer


def circle() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["self"] = found
    return found


def test_a_name_that_is_a_text_of_another_type_is_refused() -> None:
    with pytest.raises(DagError, match=r"^Dataset\('lake://a'\): name is a text of 250 characters at most"):
        Dataset("lake://a", name=Text("x"))


def test_a_name_with_half_a_surrogate_pair_is_an_error_of_its_dataset() -> None:
    with pytest.raises(DagError, match=r"^Dataset\('lake://a'\): name is a text of 250 characters at most"):
        Dataset("lake://a", name="\ud800")


@pytest.mark.parametrize("extra", [7, "text", "\ud800", {"text": "\ud800"}, {"\ud800": 1}, {1, 2}, {"at": object()}, circle()])
def test_an_extra_that_is_no_json_object_is_an_error_of_its_dataset(extra: Any) -> None:
    with pytest.raises(DagError, match=r"^Dataset\('lake://a'\): name is a text .* extra an object that fits JSON: "):
        Dataset("lake://a", extra=extra)
