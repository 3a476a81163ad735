"""The line by which a notification tells people what happened."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from tests.shapes import NOW
from tidegate.schemas.notice import CallbackContext, FailedTask, MissedDeadline, filled, headline, instance_name, page_of
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


SITE = "https://tidegate.example.org/"


@pytest.mark.parametrize(
    ("site", "facts", "page"),
    [
        ("", {}, None),
        (SITE, {}, "https://tidegate.example.org/dags/daily/runs/r1"),
        (
            SITE,
            {"run_id": "manual 2024-05-01T12:00:00+00:00/1"},
            f"{SITE}dags/daily/runs/manual%202024-05-01T12%3A00%3A00%2B00%3A00%2F1",
        ),
        (SITE, {"task_id": "load"}, f"{SITE}dags/daily/runs/r1/tasks/load"),
        (SITE, {"task_id": "load", "map_index": 3}, f"{SITE}dags/daily/runs/r1/tasks/load%5B3%5D"),
        (SITE, {"run_id": None, "task_id": "load"}, f"{SITE}dags/daily"),
    ],
)
def test_a_notification_has_the_page_of_what_it_is_about(site: str, facts: dict[str, Any], page: str | None) -> None:
    assert page_of(site, msgspec.structs.replace(OF_RUN, **facts)) == page


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ({"text": "{headline}\n{url}"}, {"text": "daily: run r1: failed\n"}),
        (
            {"payload": {"severity": "error", "links": [{"href": "{dag_id}/{run_id}", "size": 1}]}},
            {"payload": {"severity": "error", "links": [{"href": "daily/r1", "size": 1}]}},
        ),
        ({"text": "{reason} {task_id} {on} {state} {at}"}, {"text": f"a {{dag_id}}  failure failed {NOW.isoformat()}"}),
        ({"{dag_id}": "{ dag_id } {dag_id.x} {{dag_id}} {other}"}, {"{dag_id}": "{ dag_id } {dag_id.x} {daily} {other}"}),
    ],
)
def test_the_body_of_a_webhook_has_the_facts_in_place_of_their_names(body: dict[str, Any], sent: dict[str, Any]) -> None:
    assert filled(msgspec.json.encode(body).decode(), msgspec.structs.replace(OF_RUN, reason="a {dag_id}")) == sent
