"""The entries of the audit log, and the check of its chain."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tidegate.schemas.queries import audit_log
from tidegate.schemas.queries.audit_log import AuditFilter, AuditRow
from tidegate.schemas.queries.db import Db

MOST_PROBLEMS = 100
KEPT = r"^[1-9][0-9]{0,17}:[0-9a-f]{64}\Z"
"""A link of an earlier check: its number, and its hash in hex."""

NEWEST = 500
"""Entries whose check takes a few milliseconds."""

BEFORE_ALL = -(2**63)
ORIGIN = {"from", "request", "request_id"}
EMPTY: Sequence[Any] = (None, "", [], {})


class Verification(msgspec.Struct, frozen=True):
    """The number of the last entry of the chain that was checked, counted from 1, its hash in hex, and the first problems.

    The chain alone does not show that its newest entries were removed together with their links: a later check compares it with
    `number` and `head`, kept elsewhere.
    """

    number: int
    head: str
    problems: Sequence[str]


class VerifiedPart(Verification, frozen=True):
    """The problems of a part of the log. `next_cursor` asks for the part after it; None: all entries were checked."""

    next_cursor: str | None = None


class Progress(msgspec.Struct, frozen=True):
    """How far a check of the log has come: up to a link of the chain, and after its last link up to an entry of the log."""

    number: int = 0
    head: str = ""
    entry: int | None = None


class Part(msgspec.Struct, frozen=True):
    """The problems of a part of the log. `progress` is that at its end; `is_last`: the check is complete."""

    progress: Progress
    problems: Sequence[str]
    is_last: bool = False


class CheckedEntry(msgspec.Struct, frozen=True):
    """An entry, and what is wrong with its link in the chain; None: it is unchanged since it was written."""

    entry: AuditRow
    problem: str | None


def in_words(details: Mapping[str, Any]) -> list[str]:
    """The details in words: `slots before: 3`. Without the request, unless nothing else says what was done."""
    apart = ORIGIN if details.keys() & {"body", "would_have"} else ORIGIN - {"request"}
    body = details.get("body", {})
    fields = body if isinstance(body, dict) else {"body": body}  # an entry may have been changed
    told = {name: value for name, value in details.items() if name not in apart and name != "body"} | fields
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
    problems = {link.audit_id: link.problem for link in await audit_log.links_of(db, [entry.id for entry in entries])}
    return [CheckedEntry(entry, problems.get(entry.id, f"entry {entry.id} is not in the chain")) for entry in entries]


async def problems_of_newest(db: Db) -> Sequence[str]:
    """What is wrong with the newest entries."""
    start = await audit_log.before_newest(db, NEWEST)
    links = await audit_log.links_after(db, start.number, start.hash)
    found = await audit_log.unchained_after(db, start.audit_id)
    problems = [link.problem for link in links if link.problem]
    return problems if found.first is None else [*problems, f"entry {found.first} is not in the chain"]


async def verify(ask: Callable[[Callable[..., Any]], Awaitable[Any]], kept: str | None = None) -> Verification:
    """Check every entry, part by part. `ask` runs a query, as `Database.autocommit` does."""
    part, problems = Part(Progress(), ()), list[str]()
    while not part.is_last:
        part = await ask(partial(verify_part, done=part.progress, kept=kept))
        problems += part.problems
    return Verification(part.progress.number, part.progress.head, problems[:MOST_PROBLEMS])


async def verify_part(db: Db, done: Progress, kept: str | None = None) -> Part:
    """Check the next entries by their links; after the chain, that each entry has a link, which the chain cannot tell.

    The last part says whether the chain lacks a link that was kept elsewhere.
    """
    if done.entry is None and (links := await audit_log.links_after(db, done.number, bytes.fromhex(done.head))):
        problems = [link.problem for link in links if link.problem]
        return Part(Progress(links[-1].number, links[-1].hash.hex()), problems[:MOST_PROBLEMS])
    found = await audit_log.unchained_after(db, BEFORE_ALL if done.entry is None else done.entry)
    problems = [] if found.first is None else [f"entry {found.first} is not in the chain"]
    is_last = bool(problems) or found.last is None
    if is_last and kept is not None:
        problems += await _problems_of(db, kept)
    return Part(msgspec.structs.replace(done, entry=found.last), problems, is_last)


async def _problems_of(db: Db, kept: str) -> list[str]:
    """What is wrong with the link that was kept elsewhere."""
    number, _, head = kept.partition(":")
    if await audit_log.has_link(db, int(number), bytes.fromhex(head)):
        return []
    return [f"link {number} of the chain does not have the kept hash: entries were removed, or the chain was made anew"]
