"""What pages say in words, and which rows they show where."""

from typing import Any

import pytest
from markupsafe import Markup

from tests.unit.daemon.read_model.test_system import HEALTHY
from tests.unit.daemon.web.test_run_page import task
from tidegate.daemon.intake.lag import PartitionRow
from tidegate.daemon.read_model.arrival import Arrival
from tidegate.daemon.web.pages.datasets import DatasetScreen
from tidegate.daemon.web.pages.system import SystemScreen
from tidegate.daemon.web.pages.task import TaskRecord, TaskScreen
from tidegate.schemas.queries.dataset_pages import ProducerRow
from tidegate.schemas.queries.run_pages import RunAttemptRow

ALIVE = "1 daemon is alive; 0 events wait to be published; no dead letter is open"


def partition(lag: int | None) -> PartitionRow:
    known: dict[str, Any] = dict.fromkeys(PartitionRow.__struct_fields__)
    return PartitionRow(**{**known, "lag": lag})


@pytest.mark.parametrize(
    ("lags", "no_ends", "has_more", "behind"),
    [
        ([], "", False, "0 records are not read yet"),
        ([1, None, 0], "", False, "1 record is not read yet"),
        ([1_000, 1], "", True, "1,001 records are not read yet of the first 2 partitions"),
        ([None], "Kafka is away", False, "how far partitions are behind is not known"),
    ],
)
def test_the_system_says_how_far_it_is_behind(lags: list[int | None], no_ends: str, behind: str, *, has_more: bool) -> None:
    web: Any = None
    page = SystemScreen(HEALTHY, [partition(lag) for lag in lags], no_ends, has_more, web)

    assert (page.headline, page.facts) == ("all well", f"{ALIVE}; {behind}")


def test_a_producer_with_an_arrival_is_shown_once() -> None:
    producers = [ProducerRow("a", "x"), ProducerRow("a", "y"), ProducerRow("b", "x")]
    arrival = Arrival("a", ["x", "y"], None, is_active=False, usual=None, next_run=None, waits_for=(), missing=())
    known: dict[str, Any] = dict.fromkeys(DatasetScreen.__struct_fields__)

    page = DatasetScreen(**{**known, "producers": producers, "arrivals": [arrival]})

    assert page.other_producers == producers[2:]


def attempt(number: int, log_tail: str | None) -> RunAttemptRow:
    known: dict[str, Any] = dict.fromkeys(RunAttemptRow.__struct_fields__)
    return RunAttemptRow(**{**known, "try_number": number, "log_tail": log_tail})


@pytest.mark.parametrize(
    ("state", "shown_try", "no_attempt", "log_tail"),
    [
        ("upstream_failed", None, "Nothing was run for it: upstream failed.", ""),
        ("failed", 1, "Nothing was run for it: failed.", "it fails"),
        ("scheduled", 2, "No attempt yet.", ""),
        ("queued", 3, "No attempt yet.", ""),
    ],
)
def test_a_task_says_what_it_has_of_its_attempts(state: str, shown_try: int | None, no_attempt: str, log_tail: str) -> None:
    run: Any = None
    record = TaskRecord(run, task(state), [attempt(1, "it fails"), attempt(2, None)], None, "", None)
    page = TaskScreen(record, shown_try, None, Markup(), "", None)

    assert (page.no_attempt, page.log_tail) == (no_attempt, log_tail)
