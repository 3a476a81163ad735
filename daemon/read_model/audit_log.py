"""The entries of the audit log, and the check of its chain."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tidegate.schemas.queries import audit_log
from tidegate.schemas.queries.audit_log import AuditFilter, AuditRow, Link, Unchained
from tidegate.schemas.queries.db import Db

MOST_PROBLEMS = 100
BEFORE_ALL = -(2**63)
ORIGIN = {"from", "request", "request_id"}
EMPTY: Sequence[Any] = (None, "", [], {})


class Verification(msgspec.Struct, frozen=True):
    """The number of entries that were checked, the first problems, and the hash of the last entry in hex.

    The removal of the newest entries together with their links cannot be seen in the chain: compare `number` and `head` with
    those of an earlier check, kept elsewhere.
    """

    number: int
    head: str
    problems: Sequence[str]


class CheckedEntry(msgspec.Struct, frozen=True):
    """An entry, and what is wrong with its link in the chain; None: it is unchanged since it was written.

    `is_refused`: it was written before the change that it names, and a later entry says why that was refused.
    """

    entry: AuditRow
    problem: str | None
    is_refused: bool = False


def facts_of(details: Mapping[str, Any]) -> list[str]:
    """The details in words: `slots before: 3`. Without the request, unless nothing else says what was done."""
    apart = ORIGIN if details.keys() & {"body", "would_have"} else ORIGIN - {"request"}
    told = {name: value for name, value in details.items() if name not in apart and name != "body"} | details.get("body", {})
    names = sorted(told, key=lambda name: name != "would_have")
    return [f"{name.replace('_', ' ')}: {_text(told[name])}" for name in names if told[name] not in EMPTY]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


async def read_entries(db: Db, chosen: AuditFilter, limit: int, before: int | None) -> list[CheckedEntry]:
    """The entries, newest first, those before one; each is checked against its link and the one before."""
    entries = await audit_log.list_entries(db, chosen, limit, before)
    ids = [entry.id for entry in entries]
    problems = {link.audit_id: link.problem for link in await audit_log.links_of(db, ids)}
    refused = await audit_log.refused(db, chosen, ids)
    return [
        CheckedEntry(entry, problems.get(entry.id, f"entry {entry.id} is not in the chain"), is_refused=entry.id in refused)
        for entry in entries
    ]


async def verify(ask: Callable[[Callable[..., Any]], Awaitable[Any]]) -> Verification:
    """Check every entry, page by page. `ask` runs a query, as `Database.autocommit` does."""
    last: Link | None = None
    number, problems = 0, list[str]()
    while links := await ask(partial(audit_log.links_after, last=last)):
        number += len(links)
        problems = [*problems, *(link.problem for link in links if link.problem)][:MOST_PROBLEMS]
        last = links[-1]
    if len(problems) < MOST_PROBLEMS and (unchained := await _first_unchained(ask)) is not None:
        problems.append(f"entry {unchained} is not in the chain")
    return Verification(number, last.hash.hex() if last else "", problems)


async def _first_unchained(ask: Callable[[Callable[..., Any]], Awaitable[Any]]) -> int | None:
    """The first entry without a link, which the chain cannot tell of."""
    last: int | None = BEFORE_ALL
    while last is not None:
        found: Unchained = await ask(partial(audit_log.unchained_after, number=last))
        if found.first is not None:
            return found.first
        last = found.last
    return None
