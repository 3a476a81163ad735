"""The check of the audit log's chain."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from tidegate.schemas.queries import audit_log
from tidegate.schemas.queries.audit_log import Link

MOST_PROBLEMS = 100


class Verification(msgspec.Struct, frozen=True):
    """The number of entries that were checked, the first problems, and the hash of the last entry in hex.

    The removal of the newest entries together with their links cannot be seen in the chain: compare `number` and `head` with
    those of an earlier check, kept elsewhere.
    """

    number: int
    head: str
    problems: Sequence[str]


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
