"""The audit log."""

from typing import Annotated

from msgspec import Meta

from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.gateway.lists import Cursor, Keyset, Listed, Time, newest_first
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.audit_log import KEPT, Progress, VerifiedPart, verify_part
from tidegate.schemas.queries import audit_log
from tidegate.schemas.queries.audit_log import AuditFilter, AuditRow
from tidegate.schemas.queries.db import Db

NEWEST = newest_first("audit")

VERIFIED = Keyset(
    "audit verification",
    Progress.__struct_fields__,
    (
        Annotated[int, Meta(ge=0, le=2**63 - 1)],
        Annotated[str, Meta(pattern=r"^([0-9a-f]{2})*\Z", max_length=128)],
        Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None,
    ),
)


class AuditList(Listed, frozen=True):
    """The entries, or some of them."""

    who: Annotated[str | None, Meta(description="Only entries of this user.")] = None
    object: Annotated[
        str | None,
        Meta(description="Only entries about this object and what it has: `DAG daily` also its runs, tasks and backfills."),
    ] = None
    since: Annotated[Time | None, Meta(description="Only entries of this time or later.")] = None
    until: Annotated[Time | None, Meta(description="Only entries of this time or earlier.")] = None


async def list_audit(db: Db, call: Call[AuditList]) -> Page[AuditRow]:
    """List changes and refusals, newest first: who did what with which object, from where."""
    params = call.params
    chosen = AuditFilter(params.who, params.object, params.since, params.until)
    return NEWEST.page(await audit_log.list_entries(db, chosen, params.limit + 1, NEWEST.first(params)), params)


class VerificationOf(Params, frozen=True):
    """The part of the log after one that gave the cursor."""

    cursor: Cursor = None
    kept: Annotated[
        Annotated[str, Meta(pattern=KEPT)] | None,
        Meta(description="`number:head` of an earlier check. The last part says whether the chain lacks it."),
    ] = None


async def verify_audit(db: Db, call: Call[VerificationOf]) -> VerifiedPart:
    """Check that no entry was changed or removed since it was written, some thousands at a time."""
    key = VERIFIED.key(call.params.cursor)
    part = await verify_part(db, Progress(*key) if key else Progress(), call.params.kept)
    next_cursor = None if part.is_last else VERIFIED.cursor(part.progress)
    return VerifiedPart(part.progress.number, part.progress.head, part.problems, next_cursor)


ENDPOINTS = (
    Read("/audit", Right.OPERATE, list_audit, AuditList, Page[AuditRow]),
    Read("/audit/verification", Right.OPERATE, verify_audit, VerificationOf, VerifiedPart),
)
