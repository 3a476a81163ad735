"""What made a run, which daemon created it, and how long each stage took."""

from collections.abc import Sequence

import msgspec

from tidegate.daemon.read_model import inputs
from tidegate.daemon.read_model.condition import schedule_text
from tidegate.daemon.read_model.run import MOST_FAILURES
from tidegate.handlers.explain.stages import Stage, stages
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.error import described
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.counting import EXTRA_BYTES
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import ConsumedEventRow, Origin, OriginFacts, RunMoveRow, RunRow, Steps
from tidegate.schemas.text import counted

MOST_ATTEMPTS = 1_000

CAUSES = {
    "dataset_updated": "dataset events arrived",
    "schedule_due": "it was due",
    "backfill_due": "its backfill had room for it",
    "run_requested": "it was requested",
    "pause_requested": "its DAG was unpaused",
    "dag_file_changed": "a DAG file changed",
    "task_finished": "a task ended, and with it a run ahead of it",
    "run_reconsidered": "a run ahead of it was evaluated again",
    "run_end_requested": "a user ended a run ahead of it",
    "run_timed_out": "a run ahead of it timed out",
    "runs_cancelled": "a user cancelled runs ahead of it",
    "clear_requested": "runs of its DAG were cleared",
    "task_marked": "a user marked a task of a run ahead of it",
}
"""By kind of message. Other kinds ended an attempt."""


ATTEMPT_ENDED = "an attempt ended, and with it a run ahead of it"


class RunOrigin(msgspec.Struct, frozen=True):
    """The origin of a run. `condition` and `timing` are of the version that the run is pinned to; a `condition` of one that
    cannot be read says so.

    `forgotten` consumed events are older than the retention.
    """

    dag_id: str
    run_id: str
    origin: OriginFacts
    backfill_id: int | None
    cause: str | None
    condition: str
    timing: str
    events: Sequence[ConsumedEventRow]
    forgotten: int
    stages: Sequence[Stage]
    attempts: Sequence[Steps]
    journal: Sequence[RunMoveRow]
    failures: Sequence[FailedTask] = ()

    @property
    def made_by(self) -> str:
        """What made the run: `its timetable, with 2 dataset events`."""
        events = self.origin.events
        match self.origin.run_type:
            case "dataset":
                return "dataset events, all older than the retention" if events is None else _events(events)
            case "scheduled":
                return "its timetable" + (f", with {_events(events)}" if events else "")
            case "manual":
                return "a request"
            case _:
                return f"backfill {self.backfill_id}" if self.backfill_id else "a backfill that was deleted"


def _events(number: int) -> str:
    return counted(number, "dataset event", "dataset events")


async def read_run_origin(
    db: Db, run: RunRow, extra_bytes: int = EXTRA_BYTES, failures: Sequence[FailedTask] | None = None
) -> RunOrigin:
    """The origin, whose events have so much extra together. `failures` are those of the run, if they were read before."""
    origin = await run_pages.origin(db, run.dag_id, run.run_id)
    events = await run_pages.consumed(db, origin.id, extra_bytes)
    steps = await run_pages.steps(db, origin.id, MOST_ATTEMPTS)
    condition, timing = _schedule(origin)
    return RunOrigin(
        dag_id=run.dag_id,
        run_id=run.run_id,
        origin=msgspec.convert(origin, OriginFacts, from_attributes=True),
        backfill_id=run.backfill_id,
        cause=cause(origin),
        condition=condition,
        timing=timing,
        events=events,
        forgotten=(origin.events or 0) - len(events),
        stages=stages(origin, events, steps),
        attempts=steps,
        journal=await run_pages.journal_of(db, run.dag_id, run.run_id),
        failures=await run_pages.failures_of(db, run.dag_id, run.run_id, MOST_FAILURES) if failures is None else failures,
    )


def _schedule(origin: Origin) -> tuple[str, str]:
    """The condition and the timing."""
    try:
        spec = msgspec.convert(origin.spec, DagSpec)
    except msgspec.ValidationError as error:
        return f"version {origin.version} cannot be read: {described(error)}", ""
    return schedule_text(spec.schedule, spec.timetable, together=spec.together), inputs.timing_text(spec.timing)


def cause(origin: Origin) -> str | None:
    """The kind of message that created the run, in words; None where it was not recorded."""
    return None if origin.cause is None else CAUSES.get(origin.cause, ATTEMPT_ENDED)
