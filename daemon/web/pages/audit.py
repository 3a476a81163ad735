"""The audit log: who did what with which object, and whether an entry was changed since."""

from tidegate.daemon.api.audit import NEWEST
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.gateway.lists import Listed
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.audit_log import CheckedEntry, read_entries
from tidegate.daemon.web.fields import between
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.audit_log import AuditFilter
from tidegate.schemas.queries.db import Db


class AuditList(Listed, frozen=True):
    """The entries of a user, about an object, between two dates or times."""

    who: str = ""
    object: str = ""
    since: str = ""
    until: str = ""

    @property
    def chosen(self) -> AuditFilter:
        """Raises InvalidError for a time that cannot be read."""
        return AuditFilter(self.who.strip() or None, self.object.strip() or None, *between(self.since, self.until))


class AuditScreen(Page[CheckedEntry], frozen=True):
    """A part of the log."""

    @property
    def problems(self) -> list[str]:
        """What is wrong with entries of this part."""
        return [row.problem for row in self.items if row.problem]


async def read(db: Db, call: Call[AuditList]) -> AuditScreen:
    params = call.params
    rows = await read_entries(db, params.chosen, params.limit + 1, NEWEST.first(params))
    page = NEWEST.page([row.entry for row in rows], params)
    return AuditScreen(rows[: params.limit], page.next_cursor)


SCREEN = Screen(Read("/audit", Right.OPERATE, read, AuditList, AuditScreen), "audit.html")
