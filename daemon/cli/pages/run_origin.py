"""`runs explain`: what made a run, which daemon created it, and how long each stage took."""

from datetime import datetime

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.event import producer_text
from tidegate.daemon.cli.pages.run import print_events, print_failures
from tidegate.daemon.read_model.run_origin import RunOrigin
from tidegate.handlers.explain.stages import Stage
from tidegate.schemas.queries.run_pages import ConsumedEventRow, Steps
from tidegate.schemas.text import span, took, utc

EVENT_TITLES = ("EVENT", "DATASET", "SOURCE", "ID", "PRODUCER", "OCCURRED", "ARRIVED AFTER", "WAITED")
STAGE_TITLES = ("STAGE", "AT", "TOOK")
STEP_TITLES = ("TASK", "TRY", "FOR SLOTS", "TO SUBMIT", "TO START", "RAN", "STATE", "HOST")
JOURNAL_TITLES = ("STATE", "AT", "REASON")


def print_page(page: RunOrigin, now: datetime) -> None:
    run = page.origin
    output.heading(f"{page.dag_id} {page.run_id}")
    output.facts(
        (
            ("state", run.state),
            ("made by", page.made_by),
            ("because", page.cause),
            ("created", run.created_at),
            ("by", run.creator),
            ("schedule", page.condition),
            ("timing", page.timing),
            ("version", f"{run.version}, since {utc(run.version_at)}, {run.path}"),
            ("logical date", run.logical_date),
            ("run after", run.run_after),
        )
    )
    cells = (_event_cells(event, run.created_at) for event in page.events)
    print_events(EVENT_TITLES, cells, page.forgotten, page.origin.events_left)
    output.section("stages", STAGE_TITLES, map(_stage_cells, page.stages), empty="none")
    output.section("attempts", STEP_TITLES, (_step_cells(steps, now) for steps in page.attempts), empty="none")
    output.section("journal", JOURNAL_TITLES, ((m.state, m.at, m.reason) for m in page.journal), empty="none")
    print_failures(page.failures)


def _event_cells(event: ConsumedEventRow, created_at: datetime) -> tuple[output.Cell, ...]:
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
