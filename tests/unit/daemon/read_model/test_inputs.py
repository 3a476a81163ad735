"""The inputs of a condition and its timing, as pages show them."""

from datetime import time, timedelta

import pytest

from tests.shapes import NOW, A, B, spec
from tests.unit.handlers.event_driven_dags import event
from tidegate.daemon.read_model.inputs import InputRow, input_rows, timing_text, with_events
from tidegate.schemas.conditions.condition import AllOf, DatasetRef, InputDeadlineSpec, Timing

MANY = DatasetRef("s://a", "n > 2")


def test_each_input_has_the_events_that_count_for_it() -> None:
    condition = AllOf((MANY, A, B))

    rows = input_rows(condition, spec("t", schedule=condition), [event(1, n=1, arrived=-5), event(2, n=3, arrived=-2)], NOW)

    minute = timedelta(minutes=1)
    assert rows == [
        InputRow("s://a[n > 2]", 1, NOW - 2 * minute),
        InputRow("s://a", 2, NOW - 5 * minute),
        InputRow("s://b", 0, None),
    ]
    assert set(with_events(condition, rows)) == {MANY, A}


def test_no_event_counts_for_a_condition_that_cannot_be_evaluated() -> None:
    broken = DatasetRef("s://a", "n >")

    assert input_rows(broken, spec("t", schedule=broken), [event(1)], NOW) == [InputRow("s://a[n >]", 0, None)]


TIMINGS: tuple[tuple[Timing, str], ...] = (
    (Timing(), ""),
    (Timing(within_s=3600), "all within 1h00m of each other"),
    (Timing(quiet_for_s=60, max_wait_s=90), "after 1m00s of quiet, at most 1m30s after they are there"),
    (
        Timing(min_interval_s=300, deadline=InputDeadlineSpec(after_s=60)),
        "at most one run in 5m00s, a run anyway if they are not there 1m00s after the first event",
    ),
    (Timing(deadline=InputDeadlineSpec(at=time(9), fallback="skip")), "no run if they are not there by 09:00 UTC"),
    (
        Timing(deadline=InputDeadlineSpec(at=time(9), timezone="Europe/Zurich", fallback="alert")),
        "an alert if they are not there by 09:00 Europe/Zurich",
    ),
)


def test_the_table_has_each_field_of_a_timing() -> None:
    assert {name for timing, _ in TIMINGS for name in timing.__struct_fields__ if getattr(timing, name) is not None} == set(
        Timing.__struct_fields__
    )


@pytest.mark.parametrize(("timing", "words"), TIMINGS)
def test_timing_in_words(timing: Timing, words: str) -> None:
    assert timing_text(timing) == words
