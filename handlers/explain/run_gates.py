"""The gates of a run, which all its tasks have to pass: what made it, its time, its DAG, its turn."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from tidegate.handlers.explain.task_facts import Found
from tidegate.handlers.scheduling.run_limit import blockers_of_run, held_by
from tidegate.schemas.explain import reasons
from tidegate.schemas.explain.gates import Gate, GateState
from tidegate.schemas.explain.reasons import Reason, RunEnded
from tidegate.schemas.queries.leases import JobRow
from tidegate.schemas.state import RUN_ENDED, TASK_ACTIVE, TASK_ENDED, RunState


def gate(
    name: str,
    reason: Reason | None = None,
    facts: Mapping[str, Any] | None = None,
    *,
    reached: bool = True,
    since: datetime | None = None,
) -> Gate:
    """Closed where something blocks it. Facts that are None or empty are left out."""
    state = GateState.CLOSED if reason else GateState.OPEN if reached else GateState.NOT_REACHED
    known = {fact: value for fact, value in (facts or {}).items() if value not in (None, "", ())}
    return Gate(name=name, state=state, reason=reason, since=since, facts=known)


def daemons_gate(daemons: Sequence[JobRow], *, needed: bool = True) -> Gate:
    """Whether anybody decides, where that is needed."""
    hosts = tuple(f"{daemon.host} (pid {daemon.pid})" for daemon in daemons)
    reason = reasons.NoDaemon() if needed and not hosts else None
    return gate("daemons", reason, {"alive": len(hosts), "daemons": hosts})


def run_gates(found: Found) -> Iterator[Gate]:
    run, around, blocks = found.run, found.around, _blocks(found)
    made = {"made": run.run.run_type, "events": around.events or None, "logical_date": run.run.logical_date}
    yield gate("condition", None, made | {"version": around.version}, since=around.created_at)
    yield gate("timing", blocks.get(reasons.NotYetDue), {"run_after": run.run.run_after})
    paused_at = around.paused_at if run.is_paused else None
    yield gate("pause", blocks.get(reasons.DagPaused), {"paused": run.is_paused or None}, since=paused_at)
    broken = {"error": around.import_error, "broken_since": around.broken_since}
    file = {"file": around.path, "missing": run.is_stale or None, **broken}
    yield gate("DAG file", blocks.get(reasons.DagStale), file, since=around.stale_at if run.is_stale else None)
    working = {"running": run.running_runs, "max_active_runs": found.newest.max_active_runs, "runs": tuple(around.running)}
    yield gate("run limit", blocks.get(reasons.MaxActiveRuns), working)
    yield gate("runs before it", blocks.get(reasons.RunsAhead), {"queued": run.runs_ahead or None})
    yield _run_state(found)


def _blocks(found: Found) -> Mapping[type, Reason]:
    """What keeps the run from starting; once it has, pause still keeps its tasks from that."""
    run = found.run
    if run.run.state is RunState.QUEUED:
        blocks: Iterator[Reason] = blockers_of_run(run, found.newest.max_active_runs, found.now)
    elif run.run.state is RunState.RUNNING and found.instance.state not in TASK_ACTIVE | TASK_ENDED:
        blocks = iter(held_by(is_paused=run.is_paused, is_stale=False))
    else:
        blocks = iter(())
    return {type(reason): reason for reason in blocks}


def _run_state(found: Found) -> Gate:
    run, around = found.run.run, found.around
    if run.state in RUN_ENDED and found.instance.state not in TASK_ENDED:
        reason = RunEnded(run.state, around.reason or "")
        return gate("run state", reason, {"state": run.state}, since=around.end_date)
    since = around.end_date or run.start_date or around.created_at
    return gate("run state", None, {"state": run.state}, reached=run.state is not RunState.QUEUED, since=since)
