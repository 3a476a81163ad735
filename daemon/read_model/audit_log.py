"""The entries of the audit log, and the check of its chain."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from tidegate.schemas.queries import audit_log
from tidegate.schemas.queries.audit_log import AuditFilter, AuditRow, Link
from tidegate.schemas.queries.db import Db

MOST_PROBLEMS = 100


class Verification(msgspec.Struct, frozen=True):
    """The number of entries that were checked, the first problems, and the hash of the last entry in hex.

    The removal of the newest entries together with their links cannot be seen in the chain: compare `number` and `head` with
    those of an earlier check, kept elsewhere.
    """

    number: int
    head: str
    problems: Sequence[str]


class CheckedEntry(msgspec.Struct, frozen=True):
    """An entry, and what is wrong with its link in the chain; None: it is unchanged since it was written."""

    entry: AuditRow
    problem: str | None


async def read_entries(db: Db, chosen: AuditFilter, limit: int, before: int | None) -> list[CheckedEntry]:
    """The entries, newest first, those before one; each is checked against its link and the one before."""
    entries = await audit_log.list_entries(db, chosen, limit, before)
    problems = {link.audit_id: link.problem for link in await audit_log.links_of(db, [entry.id for entry in entries])}
    return [CheckedEntry(entry, problems.get(entry.id, f"entry {entry.id} is not in the chain")) for entry in entries]


async def verify(ask: Callable[[Callable[..., Any]], Awaitable[Any]]) -> Verification:
    """Check every entry, page by page. `ask` runs a query, as `Database.autocommit` does."""
    last: Link | None = None
    number, problems = 0, list[str]()
    while links := await ask(partial(audit_log.links_after, last=last)):
        number += len(links)
        problems += [link.problem for link in links if link.problem]
        last = links[-1]
    unchained = await ask(audit_log.first_unchained)
    if unchained is not None:
        problems.append(f"entry {unchained} is not in the chain")
    return Verification(number, last.hash.hex() if last else "", problems[:MOST_PROBLEMS])
