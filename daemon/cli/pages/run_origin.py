"""`runs explain`: what made a run, which daemon created it, and how long each stage took."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.event import producer_text
from tidegate.daemon.cli.pages.run import print_events, print_failures
from tidegate.daemon.read_model import inputs
from tidegate.daemon.read_model.condition import schedule_text
from tidegate.daemon.read_model.run import MOST_FAILURES
from tidegate.handlers.explain.stages import Stage, stages
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import ConsumedEvent, Origin, RunMoveRow, RunRow, Steps
from tidegate.schemas.timetable.text import span, took, utc

MOST_ATTEMPTS = 1_000

EVENT_TITLES = ("EVENT", "DATASET", "SOURCE", "ID", "PRODUCER", "OCCURRED", "ARRIVED AFTER", "WAITED")
STAGE_TITLES = ("STAGE", "AT", "TOOK")
STEP_TITLES = ("TASK", "TRY", "FOR SLOTS", "TO SUBMIT", "TO START", "RAN", "STATE", "HOST")
JOURNAL_TITLES = ("STATE", "AT", "REASON")

CAUSES = {
    "dataset_updated": "dataset events arrived",
    "schedule_due": "it was due",
    "backfill_due": "its backfill had room for it",
    "run_requested": "a request",
    "pause_requested": "its DAG was unpaused",
    "dag_file_changed": "a DAG file changed",
    "task_finished": "a task ended, and with it a run ahead of it",
    "run_reconsidered": "a run ahead of it was evaluated again",
    "run_end_requested": "a user ended a run ahead of it",
    "run_timed_out": "a run ahead of it timed out",
    "clear_requested": "runs of its DAG were cleared",
    "task_marked": "a user marked a task of a run ahead of it",
}
"""By kind of message. Other kinds ended an attempt."""

ATTEMPT_ENDED = "an attempt ended, and with it a run ahead of it"


class RunOrigin(msgspec.Struct, frozen=True):
    """The origin of a run. `condition` and `timing` are of the version that the run is pinned to.

    `forgotten` consumed events are older than the retention.
    """

    dag_id: str
    run_id: str
    origin: dict[str, Any]
    backfill_id: int | None
    cause: str | None
    condition: str
    timing: str
    events: Sequence[ConsumedEvent]
    forgotten: int
    stages: Sequence[Stage]
    attempts: Sequence[Steps]
    journal: Sequence[RunMoveRow]
    failures: Sequence[FailedTask] = ()


async def read_page(db: Db, run: RunRow) -> RunOrigin:
    origin = await run_pages.origin(db, run.dag_id, run.run_id)
    events, steps = await run_pages.consumed(db, origin.id), await run_pages.steps(db, origin.id, MOST_ATTEMPTS)
    spec = msgspec.convert(origin.spec, DagSpec)
    facts = {name: value for name, value in msgspec.structs.asdict(origin).items() if name not in ("id", "spec")}
    return RunOrigin(
        dag_id=run.dag_id,
        run_id=run.run_id,
        origin=facts,
        backfill_id=run.backfill_id,
        cause=cause(origin),
        condition=schedule_text(spec.schedule, spec.timetable, together=spec.together),
        timing=inputs.timing_text(spec.timing),
        events=events,
        forgotten=(origin.events or 0) - len(events),
        stages=stages(origin, events, steps),
        attempts=steps,
        journal=await run_pages.journal_of(db, run.dag_id, run.run_id),
        failures=await run_pages.failures_of(db, run.dag_id, run.run_id, MOST_FAILURES),
    )


def cause(origin: Origin) -> str | None:
    """The kind of message that created the run, in words; None where it was not recorded."""
    return None if origin.cause is None else CAUSES.get(origin.cause, ATTEMPT_ENDED)


def print_page(page: RunOrigin, now: datetime) -> None:
    run = page.origin
    output.heading(f"{page.dag_id} {page.run_id}")
    output.facts(
        (
            ("state", run["state"]),
            ("made by", _made_by(page)),
            ("because", page.cause),
            ("created", run["created_at"]),
            ("by", run["creator"]),
            ("schedule", page.condition),
            ("timing", page.timing),
            ("version", f"{run['version']}, since {utc(run['version_at'])}, {run['path']}"),
            ("logical date", run["logical_date"]),
            ("run after", run["run_after"]),
        )
    )
    cells = (_event_cells(event, run["created_at"]) for event in page.events)
    print_events(EVENT_TITLES, cells, page.forgotten, page.origin["events_left"])
    output.section("stages", STAGE_TITLES, map(_stage_cells, page.stages), empty="none")
    output.section("attempts", STEP_TITLES, (_step_cells(steps, now) for steps in page.attempts), empty="none")
    output.section("journal", JOURNAL_TITLES, ((m.state, m.at, m.reason) for m in page.journal), empty="none")
    print_failures(page.failures)


def _made_by(page: RunOrigin) -> str:
    events = page.origin["events"]
    match page.origin["run_type"]:
        case "dataset":
            return "dataset events, all older than the retention" if events is None else _many(events)
        case "scheduled":
            return "its timetable" + (f", with {_many(events)}" if events else "")
        case "manual":
            return "a request"
        case _:
            return f"backfill {page.backfill_id}" if page.backfill_id else "a backfill that was deleted"


def _many(events: int) -> str:
    return "1 dataset event" if events == 1 else f"{events} dataset events"


def _event_cells(event: ConsumedEvent, created_at: datetime) -> tuple[output.Cell, ...]:
    """ARRIVED AFTER is the time from the event to its arrival, WAITED from its arrival to the run."""
    transit = took(event.occurred_at, event.received_at, created_at) if event.received_at else None
    waited = took(event.received_at, created_at, created_at)
    known = (event.number, event.uri or "older than the retention", event.source, event.id, producer_text(event.producer))
    return *known, event.occurred_at, transit, waited


def _stage_cells(stage: Stage) -> tuple[output.Cell, ...]:
    return stage.name, stage.at, None if stage.took_s is None else span(stage.took_s)


def _step_cells(steps: Steps, now: datetime) -> tuple[output.Cell, ...]:
    """The duration of each step, up to now for the open one."""
    return (
        steps.task,
        steps.try_number,
        took(steps.turn_at, steps.admitted_at, now),
        took(steps.admitted_at, steps.submitted_at or steps.ended_at, now),
        took(steps.submitted_at, steps.started_at or steps.ended_at, now),
        took(steps.started_at, steps.ended_at, now),
        steps.state,
        steps.host,
    )
