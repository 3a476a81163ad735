"""The audit log."""

from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.gateway.lists import Listed, Time, newest_first
from tidegate.daemon.permissions import Right
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
    wanted = call.params
    chosen = AuditFilter(wanted.who, wanted.object, wanted.since, wanted.until)
    return NEWEST.page(await audit_log.list_entries(db, chosen, wanted.limit + 1, NEWEST.first(wanted)), wanted)


ENDPOINTS = (Read("/audit", Right.OPERATE, list_audit, AuditList, Page[AuditRow]),)
