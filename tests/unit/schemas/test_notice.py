"""The line by which a notification tells people what happened."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from tests.shapes import NOW
from tidegate.schemas.notice import CallbackContext, FailedTask, MissedDeadline, headline, instance_name
from tidegate.schemas.receiver import EmailReceiver, FunctionReceiver, On, Receiver, WebhookReceiver, kind_of

OF_RUN = CallbackContext(
    on=On.FAILURE,
    dag_id="daily",
    run_id="r1",
    run_type="scheduled",
    run_after=NOW,
    logical_date=NOW,
    state="failed",
    at=NOW,
)


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"on": On.SUCCESS}, "daily: run r1: succeeded"),
        ({}, "daily: run r1: failed"),
        ({"task_id": "load"}, "daily: run r1, task load: failed"),
        ({"task_id": "load", "map_index": 0}, "daily: run r1, task load[0]: failed"),
        (
            {"on": On.RETRY, "task_id": "load", "try_number": 2},
            "daily: run r1, task load: try 2 failed, another one follows",
        ),
        ({"on": On.TIMEOUT}, "daily: run r1: took too long"),
        (
            {"on": On.DEADLINE, "deadline": MissedDeadline(name="by nine", due_at=NOW)},
            "daily: run r1: missed the deadline 'by nine'",
        ),
        ({"on": On.DEADLINE}, "daily: run r1: missed a deadline"),
        ({"on": On.DEADLINE, "run_id": None}, "daily: inputs were not there by the deadline"),
    ],
)
def test_a_headline_says_what_happened_to_what(facts: dict[str, Any], line: str) -> None:
    assert headline(msgspec.structs.replace(OF_RUN, **facts)) == line


@pytest.mark.parametrize(("map_index", "name"), [(None, "load"), (UNSET, "load"), (0, "load[0]"), (3, "load[3]")])
def test_an_instance_of_a_mapped_task_is_named_by_its_place(map_index: Any, name: str) -> None:
    assert instance_name("load", map_index) == name


@pytest.mark.parametrize(("try_number", "title"), [(2, "task load[3], try 2"), (0, "task load[3]")])
def test_a_failed_task_is_named_with_its_try(try_number: int, title: str) -> None:
    assert FailedTask(task_id="load", map_index=3, try_number=try_number, reason="").title == title


@pytest.mark.parametrize(
    ("receiver", "kind"),
    [(EmailReceiver(("a@b",)), "email"), (WebhookReceiver("http://x"), "webhook"), (FunctionReceiver("tell"), "function")],
)
def test_a_receiver_has_a_kind(receiver: Receiver, kind: str) -> None:
    assert kind_of(receiver) == kind
