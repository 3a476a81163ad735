"""The blockers of runs: reasons against their start. `why-not` prints the reasons that the scheduler acts on."""

from collections.abc import Iterator
from datetime import datetime

from tidegate.schemas.backfill import BackfillCapacity
from tidegate.schemas.explain.facts import DagStatus, RunFacts
from tidegate.schemas.explain.reasons import (
    BackfillInactive,
    BackfillLimit,
    BackfillPaused,
    DagHeld,
    DagPaused,
    DagStale,
    MaxActiveRuns,
    NotYetDue,
    RunBlocker,
    RunsAhead,
)
from tidegate.schemas.state import BackfillState
from tidegate.schemas.view import DagView


def blockers_of_inactivity(*, is_paused: bool, is_stale: bool) -> tuple[DagPaused | DagStale, ...]:
    """The blockers of all runs of a DAG that is paused or stale."""
    return (DagPaused(),) * is_paused + (DagStale(),) * is_stale


def blockers_of_hold(dag: DagStatus) -> tuple[DagHeld, ...]:
    return () if dag.hold_reason is None else (DagHeld(dag.hold_reason),)


def run_limit_reached(running: int, limit: int) -> MaxActiveRuns | None:
    return MaxActiveRuns(limit) if running >= limit else None


def has_capacity(dag: DagView) -> bool:
    """Whether one more run may start."""
    return run_limit_reached(dag.running, dag.graph.max_active_runs) is None


def blockers_of_backfill(backfill: BackfillCapacity, running: int) -> Iterator[RunBlocker]:
    if backfill.state is BackfillState.PAUSED:
        yield BackfillPaused(backfill.id)
    if running >= backfill.max_active_runs:
        yield BackfillLimit(backfill.id, "max_active_runs", backfill.max_active_runs)


def blockers_of_run(facts: RunFacts, dag: DagStatus, max_active_runs: int, now: datetime) -> Iterator[RunBlocker]:
    """Every reason why a queued run does not start. `max_active_runs` is that of the DAG's newest version."""
    yield from (*blockers_of_hold(dag), *blockers_of_inactivity(is_paused=dag.is_paused, is_stale=dag.is_stale))
    if facts.view.run_after > now:
        yield NotYetDue(facts.view.run_after)
    if facts.backfill is not None:
        if facts.inactive is not None:
            yield BackfillInactive(facts.backfill.id, facts.inactive.dag_id, facts.inactive.state, facts.inactive.path)
        yield from blockers_of_backfill(facts.backfill, facts.running_runs)
    elif reached := run_limit_reached(facts.running_runs, max_active_runs):
        yield reached
    if facts.runs_ahead:
        yield RunsAhead(facts.runs_ahead)
