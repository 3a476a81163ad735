"""Why there is a run: what made it, by whose hand, and how long each stage of it took."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon.cli.pages import inputs, output, tree
from tidegate.daemon.cli.pages.run import print_events
from tidegate.handlers.explain.stages import Stage, stages
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.queries import run_origin, run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_origin import ConsumedEvent, Origin, Steps
from tidegate.schemas.queries.run_pages import RunMoveRow, RunRow
from tidegate.schemas.timetable.text import span, took, utc

MOST_ATTEMPTS = 1_000

EVENT_TITLES = ("EVENT", "DATASET", "SOURCE", "ID", "OCCURRED", "ARRIVED AFTER", "WAITED")
STAGE_TITLES = ("STAGE", "AT", "TOOK")
STEP_TITLES = ("TASK", "TRY", "FOR SLOTS", "TO SUBMIT", "TO START", "RAN", "STATE", "HOST")
JOURNAL_TITLES = ("STATE", "AT", "REASON")

UPON = {
    "dataset_updated": "dataset events arrived",
    "schedule_due": "its time had come",
    "run_requested": "it was asked for",
    "pause_requested": "its DAG was unpaused",
    "dag_file_changed": "a DAG file changed",
    "task_finished": "a task ended, and with it a run that was in its way",
    "run_reconsidered": "a run that was in its way was looked at again",
    "run_end_requested": "a user ended a run that was in its way",
    "run_timed_out": "the time was up of a run that was in its way",
    "clear_requested": "runs of its DAG were cleared",
    "task_marked": "a user marked a task of a run that was in its way",
}
"""By the kind of message. What is not here made it with the end of a task, in one way or another."""

ENDED = "an attempt ended, and with it a run that was in its way"


class RunOrigin(msgspec.Struct, frozen=True):
    """All of `runs explain`. `condition` and `timing` are those of the version that the run is pinned to.

    `forgotten` are how many of the events that it consumed are older than the retention.
    """

    dag_id: str
    run_id: str
    origin: dict[str, Any]
    upon: str | None
    condition: str
    timing: str
    events: Sequence[ConsumedEvent]
    forgotten: int
    stages: Sequence[Stage]
    attempts: Sequence[Steps]
    journal: Sequence[RunMoveRow]


async def read_page(db: Db, run: RunRow) -> RunOrigin:
    origin = await run_origin.origin(db, run.dag_id, run.run_id)
    events, steps = await run_origin.consumed(db, origin.id), await run_origin.steps(db, origin.id, MOST_ATTEMPTS)
    spec = msgspec.convert(origin.spec, DagSpec)
    facts = {name: value for name, value in msgspec.structs.asdict(origin).items() if name not in ("id", "spec")}
    return RunOrigin(
        dag_id=run.dag_id,
        run_id=run.run_id,
        origin=facts,
        upon=upon(origin),
        condition=tree.schedule_text(spec.schedule, spec.timetable, together=spec.together),
        timing=inputs.timing_text(spec.timing),
        events=events,
        forgotten=(origin.events or 0) - len(events),
        stages=stages(origin, events, steps),
        attempts=steps,
        journal=await run_pages.journal_of(db, run.dag_id, run.run_id),
    )


def upon(origin: Origin) -> str | None:
    """What made it, in words; None where that is not on record."""
    return None if origin.created_upon is None else UPON.get(origin.created_upon, ENDED)


def print_page(page: RunOrigin, now: datetime) -> None:
    run = page.origin
    output.heading(f"{page.dag_id} {page.run_id}")
    output.facts(
        (
            ("state", run["state"]),
            ("made by", _made_by(page)),
            ("because", page.upon),
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
    print_events(EVENT_TITLES, cells, page.forgotten)
    output.section("stages", STAGE_TITLES, map(_stage_cells, page.stages), empty="none")
    output.section("attempts", STEP_TITLES, (_step_cells(each, now) for each in page.attempts), empty="none")
    output.section("journal", JOURNAL_TITLES, ((m.state, m.at, m.reason) for m in page.journal), empty="none")


def _made_by(page: RunOrigin) -> str:
    events = page.origin["events"]
    match page.origin["run_type"]:
        case "dataset":
            return "dataset events, of which none is on record any more" if events is None else _many(events)
        case "scheduled":
            return "its timetable" + (f", with {_many(events)}" if events else "")
        case "manual":
            return "a request"
        case other:
            return str(other)


def _many(events: int) -> str:
    return "1 dataset event" if events == 1 else f"{events} dataset events"


def _event_cells(event: ConsumedEvent, created_at: datetime) -> tuple[output.Cell, ...]:
    """How long after its own time it arrived, and how long it waited then for the run."""
    transit = took(event.occurred_at, event.received_at, created_at) if event.received_at else None
    waited = took(event.received_at, created_at, created_at)
    return event.number, event.uri or "older than the retention", event.source, event.id, event.occurred_at, transit, waited


def _stage_cells(stage: Stage) -> tuple[output.Cell, ...]:
    return stage.name, stage.at, None if stage.took_s is None else span(stage.took_s)


def _step_cells(steps: Steps, now: datetime) -> tuple[output.Cell, ...]:
    """How long each step lasted, or lasts already."""
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
