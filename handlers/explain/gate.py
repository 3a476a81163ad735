"""Gates, and changes that open them, that the explanations of DAGs and of tasks share."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from tidegate.schemas.explain.facts import DagStatus
from tidegate.schemas.explain.gates import Gate, GateState, Reason_co
from tidegate.schemas.explain.reasons import (
    AttemptOpen,
    BackfillInactive,
    BackfillPaused,
    DagHeld,
    DagPaused,
    DagStale,
    Debouncing,
    NextTry,
    NoDaemon,
    NotSubmitted,
    NotYetDue,
    RateLimited,
    RowLocked,
    ServerUnreachable,
    SharedReason,
)
from tidegate.schemas.explain.remedy import (
    Change,
    EndTransaction,
    Release,
    RestoreFile,
    RestoreServer,
    ResumeBackfill,
    StartDaemon,
    Unpause,
    Wait,
)
from tidegate.schemas.queries.leases import Away, JobRow
from tidegate.schemas.queries.row_holders import HeldRow

Fact = str | int | float | datetime | tuple[str, ...] | None
GateFacts = Mapping[str, Fact]
"""Named values that a gate shows."""

Outage = tuple[str, Away]
"""The name of what is out of service, and since when and why."""


def gate(
    name: str,
    reason: Reason_co | None = None,
    facts: GateFacts | None = None,
    *,
    reached: bool = True,
    since: datetime | None = None,
) -> Gate[Reason_co]:
    """Closed if there is a reason. Facts that are None or empty are left out."""
    state = GateState.CLOSED if reason else GateState.OPEN if reached else GateState.NOT_REACHED
    known = {fact: value for fact, value in (facts or {}).items() if value not in (None, "", ())}
    return Gate(name=name, state=state, reason=reason, since=since, facts=known)


def pause_gate(dag: DagStatus, reason: Reason_co | None) -> Gate[Reason_co]:
    return gate("pause", reason, {"paused": dag.is_paused or None}, since=dag.paused_at if dag.is_paused else None)


def file_gate(dag: DagStatus, reason: Reason_co | None) -> Gate[Reason_co]:
    broken = {"error": dag.import_error, "broken_since": dag.broken_since}
    facts = {"file": dag.path, "version": dag.version, "missing": dag.is_stale or None, **broken}
    return gate("DAG file", reason, facts, since=dag.stale_at if dag.is_stale else None)


def run_limit_gate(dag: DagStatus, reason: Reason_co | None, running: int, limit: int) -> Gate[Reason_co]:
    return gate("run limit", reason, {"running": running, "max_active_runs": limit, "runs": tuple(dag.running)})


def outage_gate(
    name: str, outage: Outage | None, facts: GateFacts | None = None, *, reached: bool = True
) -> Gate[ServerUnreachable]:
    """Closed by an outage."""
    if outage is None:
        return gate(name, None, facts, reached=reached)
    server, away = outage
    return gate(name, ServerUnreachable(server, away.since, away.error), facts, since=away.since)


def daemons_gate(daemons: Sequence[JobRow], *, needed: bool = True) -> Gate[NoDaemon]:
    hosts = tuple(f"{daemon.host} (pid {daemon.pid})" for daemon in daemons)
    return gate("daemons", NoDaemon() if needed and not hosts else None, {"alive": len(hosts), "daemons": hosts})


def lock_gates(held: HeldRow | None) -> Iterator[Gate[RowLocked]]:
    """Closed while another session holds the row of the DAG or of one of its runs; else there is no such gate."""
    if held is not None:
        facts = {"query_since": held.holder.query_since, "tables": tuple(held.holder.tables)}
        yield gate("lock", RowLocked(held.what, held.holder.text, held.holder.pid), facts, since=held.holder.since)


def shared_change(reason: SharedReason, dag_id: str, dag: DagStatus) -> Change:
    match reason:
        case DagPaused():
            return Unpause(dag_id)
        case DagHeld():
            return Release(dag_id, dag.path)
        case DagStale():
            return RestoreFile(dag_id, dag.path)
        case NotYetDue(at) | NextTry(at) | Debouncing(at) | RateLimited(at):
            return Wait(at)
        case AttemptOpen() | NotSubmitted():
            return Wait(None)
        case BackfillPaused() | BackfillInactive():
            return _resume(reason)
        case _:
            return _restore(reason)


def _restore(reason: NoDaemon | RowLocked | ServerUnreachable) -> Change:
    match reason:
        case NoDaemon():
            return StartDaemon()
        case RowLocked(pid=pid):
            return EndTransaction(pid)
        case _:
            return RestoreServer(reason.server)


def _resume(reason: BackfillPaused | BackfillInactive) -> Change:
    match reason:
        case BackfillPaused(backfill_id):
            return ResumeBackfill(backfill_id)
        case BackfillInactive(_, dag_id, "held", path):
            return Release(dag_id, path)
        case BackfillInactive(_, dag_id, "stale", path):
            return RestoreFile(dag_id, path)
        case _:
            return Unpause(reason.dag_id)
