"""What the page of a run says of it and of its tasks."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tidegate.daemon.web.pages.run import RunScreen
from tidegate.schemas.explain.gates import RunProgress
from tidegate.schemas.queries.run_pages import RunRow, RunTaskRow
from tidegate.schemas.state import RunState

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


class Origin(msgspec.Struct):
    """What the facts need of the origin."""

    condition: str = ""


def run(**given: Any) -> RunRow:
    known: dict[str, Any] = dict.fromkeys(RunRow.__struct_fields__)
    return RunRow(**{**known, "dag_id": "d", "run_id": "r", "run_type": "manual", "version": 3, "run_after": NOON, **given})


def screen(**given: Any) -> RunScreen:
    known: dict[str, Any] = dict.fromkeys(RunScreen.__struct_fields__)
    return RunScreen(**{**known, "run": run(), "origin": Origin(), "waits_for": {}, **given})


def task(state: str, **given: Any) -> RunTaskRow:
    known: dict[str, Any] = dict.fromkeys(RunTaskRow.__struct_fields__)
    return RunTaskRow(**{**known, "task_id": "load", "state": state, **given})


@pytest.mark.parametrize(
    ("given", "conf", "condition", "facts"),
    [
        ({}, {}, "", {"type": "manual", "version": "3", "run after": "2026-11-24 12:00:00Z"}),
        (
            {"backfill_id": 7, "data_interval_start": NOON, "data_interval_end": NOON},
            *({"n": 1}, "lake://a"),
            {
                "type": "manual",
                "version": "3",
                "backfill": "7",
                "data interval": "2026-11-24 12:00:00Z to 2026-11-24 12:00:00Z",
                "run after": "2026-11-24 12:00:00Z",
                "conf": '{"n":1}',
                "condition": "lake://a",
            },
        ),
        (
            {"logical_date": NOON},
            *({}, ""),
            {"type": "manual", "version": "3", "logical date": "2026-11-24 12:00:00Z", "run after": "2026-11-24 12:00:00Z"},
        ),
    ],
)
def test_the_facts_are_those_that_are_known(
    given: dict[str, Any], conf: dict[str, Any], condition: str, facts: dict[str, str]
) -> None:
    shown = screen(run=run(**given), conf=conf, origin=Origin(condition)).facts

    assert {fact.name: fact.text for fact in shown} == facts
    assert shown[1].address == "/dags/d/versions/3"


PROGRESS = RunProgress("d", "r", RunState.RUNNING, tasks=1, ended=0, counts={}, blocked_by=(), working=(), waiting=())
SLOTS = {("load", "scheduled"): "waits for slots", ("load", "up_for_retry"): "waits for its next try"}


@pytest.mark.parametrize(
    ("shown", "waits_for", "progress", "next_try", "reason"),
    [
        (task("scheduled", reason="x"), SLOTS, PROGRESS, None, "waits for slots"),
        (task("scheduled", reason="x"), {}, PROGRESS, None, "not decided yet"),
        (task("none", reason="x"), {}, None, None, ""),
        (task("up_for_retry", next_try_at=NOON, reason="it failed"), SLOTS, PROGRESS, None, "waits for its next try"),
        (task("up_for_retry", next_try_at=NOON, reason="it failed"), {}, None, NOON, "it failed"),
        (task("up_for_retry", reason="it failed"), {}, None, None, "it failed"),
        (task("failed", next_try_at=NOON, reason="it failed"), {}, None, None, "it failed"),
        (task("success"), {}, None, None, ""),
    ],
)
def test_a_task_has_its_reason(
    shown: RunTaskRow, waits_for: dict[Any, str], progress: RunProgress | None, next_try: datetime | None, reason: str
) -> None:
    page = screen(waits_for=waits_for, progress=progress)

    assert (page.next_try_of(shown), page.reason_of(shown)) == (next_try, reason)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"start_date": NOON}, "Its version has no tasks."),
        ({"end_date": NOON}, "It ended before it started: it has no tasks."),
        ({}, "The run has not started: it has no tasks yet."),
    ],
)
def test_a_run_without_tasks_says_why(given: dict[str, Any], text: str) -> None:
    assert screen(run=run(**given)).no_tasks == text
