"""The audit log: who did what, and whether an entry was changed since."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("audit_log")

ENTRIES_AT_ONCE = 10_000

REFUSED = "was refused"
"""What a user did whose request was refused."""


class AuditRow(msgspec.Struct, frozen=True):
    """An entry of the audit log."""

    id: int
    at: datetime
    who: str
    what: str
    object: str
    details: dict[str, Any]


class AuditFilter(msgspec.Struct, frozen=True):
    """A filter of entries; None matches any. Those about a DAG are also those about its runs and tasks."""

    who: str | None = None
    object: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Link(msgspec.Struct, frozen=True):
    """A link of the chain, and whether it follows the one before, has its entry, and matches both."""

    number: int
    audit_id: int
    hash: bytes
    follows: bool
    has_entry: bool
    matches: bool

    @property
    def problem(self) -> str | None:
        """What is wrong, in one sentence."""
        if not self.follows:
            return f"links before number {self.number} of the chain are missing"
        if not self.has_entry:
            return f"entry {self.audit_id} is missing"
        return None if self.matches else f"entry {self.audit_id}, or the chain before it, was changed"


class Start(msgspec.Struct, frozen=True):
    """A link that a check begins after, with the number of its entry."""

    number: int = 0
    audit_id: int = -(2**63)
    hash: bytes = b""


class Unchained(msgspec.Struct, frozen=True):
    """The last entry of a part of the log, None behind its end; and the first entry of the part that has no link."""

    last: int | None
    first: int | None


async def record(db: Db, who: str, what: str, name: str, details: Mapping[str, Any]) -> None:
    """Write what a user did to an object."""
    await record_all(db, who, what, {name: details})


async def record_all(db: Db, who: str, what: str, objects: Mapping[str, Mapping[str, Any]]) -> None:
    """Write what a user did to several objects, with the details of each."""
    facts = [dict(details) for details in objects.values()]
    await db.execute(_SQL["record"], [what] * len(objects), list(objects), facts, None, who, None, None, db.request)


async def list_entries(db: Db, chosen: AuditFilter, limit: int, before: int | None = None) -> list[AuditRow]:
    """The entries, newest first; those before one."""
    return [AuditRow(*row) for row in await db.fetch(_SQL["list"], *msgspec.structs.astuple(chosen), before, limit)]


async def links_after(db: Db, number: int, digest: bytes) -> Sequence[Link]:
    """Of the links after one, which has this number and hash, the last one and each with a problem."""
    return [Link(*row) for row in await db.fetch(_SQL["verify"], number, digest, ENTRIES_AT_ONCE)]


async def before_newest(db: Db, newest: int) -> Start:
    """The link before the newest ones, or the beginning of the chain."""
    found = await db.fetch(_SQL["link_before_newest"], newest)
    return Start(*found[0]) if found else Start()


async def has_link(db: Db, number: int, digest: bytes) -> bool:
    """Whether the chain has this link."""
    ((has,),) = await db.fetch(_SQL["has_link"], number, digest)
    return bool(has)


async def links_of(db: Db, ids: Sequence[int]) -> Sequence[Link]:
    """The links of these entries; an entry outside the chain has none."""
    return [Link(*row) for row in await db.fetch(_SQL["links_of"], ids)]


async def unchained_after(db: Db, number: int) -> Unchained:
    """Look for an entry without a link among the next entries."""
    ((last, first),) = await db.fetch(_SQL["unchained"], number, ENTRIES_AT_ONCE)
    return Unchained(last, first)
