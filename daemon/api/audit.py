"""The audit log."""

from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Load, Params, Read
from tidegate.daemon.gateway.lists import Listed, Time, newest_first
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.audit_log import Verification, verify
from tidegate.schemas.queries import audit_log
from tidegate.schemas.queries.audit_log import AuditFilter, AuditRow
from tidegate.schemas.queries.db import Db

NEWEST = newest_first("audit")


class AuditList(Listed, frozen=True):
    """`since` and `until` compare the time of the entry."""

    who: str | None = None
    object: str | None = None
    since: Time | None = None
    until: Time | None = None


async def list_audit(db: Db, call: Call[AuditList]) -> Page[AuditRow]:
    """List changes and refusals, newest first: who did what with which object, from where."""
    params = call.params
    chosen = AuditFilter(params.who, params.object, params.since, params.until)
    return NEWEST.page(await audit_log.list_entries(db, chosen, params.limit + 1, NEWEST.first(params)), params)


async def verify_audit(call: Call[Params]) -> Verification:
    """Check that no entry was changed or removed since it was written. Reads the whole log, some of it at a time."""
    return await verify(call.service.reader.autocommit)


ENDPOINTS = (
    Read("/audit", Right.OPERATE, list_audit, AuditList, Page[AuditRow]),
    Load("/audit/verification", Right.OPERATE, verify_audit, Params, Verification),
)
