"""Deletes the ids of events after `dedupe_days`."""

from tidegate.daemon.context import Context
from tidegate.schemas.queries import inbox

PAGES_AT_ONCE = 256
"""The pages of one statement: 2 MiB, about 25,000 ids."""

LEAST_PAGES = 1024
"""The pages of one round, at least."""

ROUNDS = 2880
"""The rounds in which the whole table is read: a day of rounds of the longest pause."""


class ExpiredIds:
    """Reads a part of the table in each round, and deletes the old ids in it.

    No index finds them for less: deleted ids leave room for new ones anywhere in the table, and an index of times would cost each
    event more than the reading of all pages once a day.
    """

    def __init__(self) -> None:
        self._page = 0

    async def delete(self, context: Context) -> None:
        """One round."""
        pages = await context.database.autocommit(inbox.pages)
        until = min(pages, self._page + max(LEAST_PAGES, -(-pages // ROUNDS)))
        while self._page < until:
            part = range(self._page, min(self._page + PAGES_AT_ONCE, until))
            await context.database.autocommit(inbox.forget, context.settings.dedupe_days, part)
            self._page = part.stop
        if self._page >= pages:
            self._page = 0
