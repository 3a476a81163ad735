"""The changes for reasons that DAGs and tasks share."""

from tidegate.schemas.explain.facts import DagStatus
from tidegate.schemas.explain.reasons import (
    AttemptOpen,
    DagPaused,
    DagStale,
    Debouncing,
    NextTry,
    NoDaemon,
    NotSubmitted,
    NotYetDue,
    RateLimited,
    Reason,
    ServerUnreachable,
)
from tidegate.schemas.explain.remedy import BringBack, Change, RestoreFile, StartDaemon, Unpause, Wait


def common_change(reason: Reason, dag_id: str, dag: DagStatus) -> Change | None:
    """None for a reason that needs a remedy of its own."""
    match reason:
        case DagPaused():
            return Unpause(dag_id)
        case DagStale():
            return RestoreFile(dag_id, dag.path)
        case NotYetDue(at) | NextTry(at) | Debouncing(at) | RateLimited(at):
            return Wait(at)
        case AttemptOpen() | NotSubmitted():
            return Wait(None)
        case NoDaemon():
            return StartDaemon()
        case ServerUnreachable(server):
            return BringBack(server)
        case _:
            return None
