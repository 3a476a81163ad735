"""Requests of users, applied in the command's process in one transaction, as a daemon would. Slow to import."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from tidegate.daemon import wake
from tidegate.daemon.audit_entry import entry_of, record_refusal
from tidegate.daemon.engine import Batch, apply
from tidegate.daemon.permissions import Caller, Right, refusal
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.daemon.work import Work
from tidegate.handlers.backfills.rejections import STALE
from tidegate.handlers.runs.rejections import NO_SUCH_DAG
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.error import ForbiddenError, RequestError, StaleError, UnavailableError
from tidegate.schemas.message import (
    BackfillActed,
    BackfillChanged,
    BackfillRequested,
    ClearRequested,
    DagDeleteRequested,
    Message,
    PauseRequested,
    ReleaseRequested,
    RunEndRequested,
    RunRequested,
    RunsCancelled,
    TaskMarked,
)
from tidegate.schemas.queries.holds import hold_of
from tidegate.schemas.text import utc

FORBIDDEN = "forbidden"

Request = (
    RunRequested
    | PauseRequested
    | ReleaseRequested
    | DagDeleteRequested
    | ClearRequested
    | RunEndRequested
    | RunsCancelled
    | TaskMarked
    | BackfillRequested
    | BackfillActed
    | BackfillChanged
)


async def apply_request(database: Database, request: Request, *, is_recorded: bool = False) -> None:
    """Apply the request, with its entry in the audit log unless it `is_recorded`, and notify the daemons.

    Raises RequestError with the reason of a rejection.

    Raises StaleError if the subject was changed meanwhile, and UnavailableError that says whether it may be done all the same.
    """
    entry = None if is_recorded else entry_of(request)
    batch = Batch(messages=[Message(body=request, at=datetime.now(UTC))], entries=[entry] if entry else ())
    try:
        applied = await apply(database, batch)
    except UnavailableError as error:
        if error.may_be_done:
            error.args = (f"{error}; the change may be done all the same",)
        raise
    if applied.rejected and applied.rejected[0].reason == STALE:
        raise StaleError(applied.rejected[0].message)
    if applied.rejected:
        rejected = applied.rejected[0]
        raise RequestError(await _refusal(database, request, rejected), reason=rejected.reason, field=rejected.field)
    if applied.work:
        await notify_daemons(database, applied.work)


async def check_rights(
    database: Database, settings: Settings, caller: Caller, dags: Sequence[str], about: str, would_have: str
) -> None:
    """Check the right to the backfills of these DAGs, or of a cascade through them. Raises ForbiddenError; it is recorded."""
    reason = next(filter(None, (refusal(settings, caller, Right.BACKFILL, dag_id) for dag_id in dags)), None)
    if reason is None:
        return
    await record_refusal(database, caller.username, about, {"would_have": would_have, "reason": reason})
    error = ForbiddenError(reason, reason=FORBIDDEN)
    error.is_recorded = True
    raise error


async def _refusal(database: Database, request: Request, rejected: RejectMessage) -> str:
    """A held DAG is hidden from decisions, so a request finds none."""
    if isinstance(request, BackfillActed | BackfillChanged) or rejected.reason != NO_SUCH_DAG:
        return rejected.message
    dag_id = request.dag_id
    hold = await database.run(hold_of, dag_id)
    if hold is None:
        return rejected.message
    return (
        f"DAG {dag_id!r} is held since {utc(hold.since)}: {hold.reason}; `tidegate dags why-not {dag_id}` says what releases it"
    )


async def notify_daemons(database: Database, work: Work) -> None:
    """Tell the daemons about new work. A failure is ignored: the work is committed, and daemons poll for it too."""
    with suppress(UnavailableError):
        await wake.notify(database, work)
